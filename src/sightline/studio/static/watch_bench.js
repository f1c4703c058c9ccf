// The pictures of Watch and where they stand: the sentence, one picture large, the steps beside it, all else below.

import { alignment } from "/drawing/alignment.js";
import { button, element, fill, section } from "/drawing/dom.js";
import { film } from "/drawing/film.js";
import { glance } from "/drawing/glance.js";
import { lens } from "/drawing/lens.js";
import { lines } from "/drawing/lines.js";
import { matrix } from "/drawing/matrix.js";
import { short } from "/drawing/numbers.js";
import { Scope } from "/drawing/scope.js";
import { strips } from "/drawing/strip.js";
import { tree } from "/drawing/tree.js";
import { worth } from "/drawing/worth.js";
import { keys } from "./watch_keys.js";
import { knockButton, markSilent, silence } from "./watch_knock.js";
import { outcome } from "./watch_outcome.js";

/** Draw all views of a store into an element; return a function that removes them. */
export function bench(host, store, acts) {
  const scope = new Scope(store);
  fill(host, result(scope), sentence(scope), workbench(scope, acts), ...below(scope, acts), footer(scope));
  scope.listen(document, "keydown", (event) => keys(event, scope, acts));
  return () => {
    scope.end();
    fill(host);
  };
}

function result(scope) {
  const said = element("p", { class: "outcome", "aria-live": "polite" });
  scope.watch(["trace"], ({ trace, knocked }) => fill(said, ...outcome(trace, knocked)));
  return element("div", { class: "bar-row result" }, said, switcher(scope, "unit", "Show", { token: "Tokens", word: "Words" }));
}

function sentence(scope) {
  return scope.mount(strips, element("section", { id: "sentence", "aria-label": "The sentence" }));
}

/** Buttons of which one is on. */
function switcher(scope, entry, label, options) {
  const buttons = Object.entries(options).map(([value, name]) => button(name, () => scope.set({ [entry]: value }), { "data-value": value }));
  scope.watch([entry], (state) => buttons.forEach((node) => node.setAttribute("aria-pressed", String(node.dataset.value === state[entry]))));
  return element("div", { class: "switcher", role: "group", "aria-label": label }, ...buttons);
}

function workbench(scope, acts) {
  const heading = element("h2", { id: "attention-title" });
  scope.watch(["trace", "heads"], ({ trace, heads }) => {
    heading.textContent = heads.length === 1 ? trace.title(heads[0]) : `Mean of ${heads.length} heads: ${heads.map((head) => trace.title(head)).join("; ")}`;
  });
  const [asLines, asMatrix] = [scope.mount(lines, element("div")), scope.mount(matrix, element("div"))];
  scope.watch(["picture"], ({ picture }) => {
    asLines.hidden = picture !== "lines";
    asMatrix.hidden = picture !== "matrix";
  });
  const tools = element("div", { class: "tools" }, knockButton(scope, acts), switcher(scope, "picture", "Picture", { lines: "Lines", matrix: "Matrix" }));
  const bar = element("div", { class: "bar-row" }, heading, tools);
  const left = element("section", { id: "attention", "aria-labelledby": "attention-title" }, bar, asLines, asMatrix);
  const all = part(scope, glance, "glance", "All heads at a glance", "Each small square is one head, layers down, heads across: its rows look at its columns, the stronger the colour, the more. Click one to open it, shift-click to add it; knock it out to see what the model does without it.");
  scope.watch(["trace", "knocked"], (state) => markSilent(all, state));
  return element("div", { class: "workbench" }, left, steps(scope), all, silence(scope, acts));
}

function steps(scope) {
  const host = scope.mount(film, element("section", { id: "film", "aria-label": "Step by step" }));
  return hiddenWhileEmpty(scope, host, host);
}

function below(scope, { measure }) {
  const worths = part(scope, worth, "worth", "What each head is worth", "Silence one head and see how much less likely the output becomes. Below zero, the head spoke for this output.");
  const ask = section("measure", "What each head is worth", "How much less likely the output becomes without each head, one after the other: the model is run once for every head.", button("Measure every head", measure));
  scope.watch(["trace"], ({ trace }) => {
    ask.hidden = trace.effects !== null || trace.steps.length === 0;
  });
  return [
    part(scope, alignment, "alignment", "Which word looked at which", "The strongest looks between whole words."),
    part(scope, tree, "tree", "The beam", "Every beginning the search kept in mind, step by step. The bar under a token is its probability; the way to the result runs along the top."),
    part(scope, lens, "lens", "What it would say after each layer", "The hidden state after each layer, read as if it were the last. Early layers were never trained to be read this way."),
    worths,
    ask,
  ];
}

/** A part with a view in it, hidden while the trace has nothing for that view. */
function part(scope, view, id, title, explanation) {
  const host = scope.mount(view, element("div"));
  return hiddenWhileEmpty(scope, host, section(id, title, explanation, host));
}

function hiddenWhileEmpty(scope, host, node) {
  scope.watch(["trace"], () => {
    node.hidden = host.firstChild === null;
  });
  return node;
}

function footer(scope) {
  const facts = element("p");
  scope.watch(["trace"], ({ trace: { family, model, steps: some, precision } }) => {
    const sizes = Object.entries(model).filter(([name, value]) => /^(d_|n_)|norm_order|positions$/.test(name) && value !== null);
    const sum = some.reduce((all, step) => all + step.log_probability, 0);
    facts.textContent = `${family}: ${sizes.map(([name, value]) => `${name} ${value}`).join(" · ")}${some.length > 0 ? ` · log-probability of the output ${short(sum)}` : ""}. Weights are true to ${precision}.`;
  });
  return element("footer", {}, facts, element("p", {}, "Layers and heads are counted from 0, as in the code. Keys: ← → step, space plays, L lines, M matrix, W words or tokens, K knocks the chosen heads out, Esc back."));
}
