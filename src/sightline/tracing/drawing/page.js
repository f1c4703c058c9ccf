// The whole page of a trace: the sentence, one picture large, the film beside it, everything else below.

import { fromAddress, remember } from "./address.js";
import { alignment } from "./alignment.js";
import { button, element, section } from "./dom.js";
import { film, go, play } from "./film.js";
import { glance } from "./glance.js";
import { lens } from "./lens.js";
import { lines } from "./lines.js";
import { matrix } from "./matrix.js";
import { lookAt } from "./looking.js";
import { short } from "./numbers.js";
import { readTrace } from "./reading.js";
import { strips } from "./strip.js";
import { systemTheme, themeButton } from "./theme.js";
import { tree } from "./tree.js";
import { view } from "./view.js";
import { worth } from "./worth.js";

/** Draw a trace (in any form that `readTrace` reads) into an element; return {store, remove} for whoever wants to steer it. */
export function draw(root, given, title = null) {
  systemTheme();
  const trace = readTrace(given);
  const store = lookAt(trace, fromAddress(trace));
  return { store, remove: whole(title)(root, store) };
}

/** All views of a trace as one. */
function whole(title) {
  return view("page", (trace, scope) => {
    const parts = [header(scope, title), sentence(scope), workbench(trace, scope), ...below(trace, scope), footer(trace)];
    scope.listen(document, "keydown", (event) => keys(event, trace, scope));
    scope.onEnd(remember(scope));
    return { node: element("div", { class: "parts" }, ...parts), data: null };
  });
}

function header(store, title) {
  const choice = switcher(store, "unit", "Show", { token: "Tokens", word: "Words" });
  const about = title === null ? null : element("p", { class: "title", dir: "auto" }, title);
  return element("header", {}, element("h1", {}, "Sightline"), about, element("div", { class: "tools" }, choice, themeButton(store)));
}

/** Buttons of which one is on. */
function switcher(store, entry, label, options) {
  const buttons = Object.entries(options).map(([value, name]) => button(name, () => store.set({ [entry]: value }), { "data-value": value }));
  store.watch([entry], (state) => buttons.forEach((node) => node.setAttribute("aria-pressed", String(node.dataset.value === state[entry]))));
  return element("div", { class: "switcher", role: "group", "aria-label": label }, ...buttons);
}

function sentence(scope) {
  return scope.mount(strips, element("section", { id: "sentence", "aria-label": "The sentence" }));
}

function workbench(trace, scope) {
  const heading = element("h2", { id: "attention-title" });
  scope.watch(["heads"], ({ heads }) => {
    heading.textContent = heads.length === 1 ? trace.title(heads[0]) : `Mean of ${heads.length} heads: ${heads.map((head) => trace.title(head)).join("; ")}`;
  });
  const [asLines, asMatrix] = [scope.mount(lines, element("div")), scope.mount(matrix, element("div"))];
  scope.watch(["picture"], ({ picture }) => {
    asLines.hidden = picture !== "lines";
    asMatrix.hidden = picture !== "matrix";
  });
  const bar = element("div", { class: "bar-row" }, heading, switcher(scope, "picture", "Picture", { lines: "Lines", matrix: "Matrix" }));
  const left = element("section", { id: "attention", "aria-labelledby": "attention-title" }, bar, asLines, asMatrix);
  const all = part(scope, glance, "glance", "All heads at a glance", "Each small square is one head, layers down, heads across: its rows look at its columns, the stronger the colour, the more. Click one to open it, shift-click to add it.");
  if (trace.steps.length === 0) return element("div", {}, left, all);
  const right = scope.mount(film, element("section", { id: "film", "aria-label": "Step by step" }));
  return element("div", { class: "workbench" }, left, right, all);
}

function below(trace, scope) {
  const parts = [
    part(scope, alignment, "alignment", "Which word looked at which", "The strongest looks between whole words."),
    part(scope, tree, "tree", "The beam", "Every beginning the search kept in mind, step by step. The bar under a token is its probability; the way to the result runs along the top."),
    part(scope, lens, "lens", "What it would say after each layer", "The hidden state after each layer, read as if it were the last. Early layers were never trained to be read this way."),
    part(scope, worth, "worth", "What each head is worth", "Silence one head and see how much less likely the output becomes. Below zero, the head spoke for this output."),
  ];
  return parts.filter((one) => one !== null);
}

/** A part of the page with a view in it; null where the trace has nothing for that view. */
function part(scope, mounted, id, title, explanation) {
  const host = scope.mount(mounted, element("div"));
  return host.firstChild === null ? null : section(id, title, explanation, host);
}

function footer({ family, model, steps, sightline, precision, knocked_out: silent }) {
  const sizes = Object.entries(model).filter(([name, value]) => /^(d_|n_)|norm_order|positions$/.test(name) && value !== null);
  const facts = sizes.map(([name, value]) => `${name} ${value}`).join(" · ");
  const sum = steps.reduce((all, step) => all + step.log_probability, 0);
  const quiet = Object.entries(silent).map(([name, heads]) => `${name} heads ${heads.join(", ")}`).join("; ");
  return element("footer", {},
    element("p", {}, `${family}: ${facts}${steps.length > 0 ? ` · log-probability of the output ${short(sum)}` : ""}`),
    quiet === "" ? null : element("p", {}, `Silenced throughout: ${quiet}`),
    element("p", {}, `Layers and heads are counted from 0, as in the code. Keys: ← → step, space plays, L lines, M matrix, W words or tokens, Esc back. Weights are true to ${precision ?? "the digits given"}. Made by Sightline ${sightline}, from this model on this text.`));
}

function keys(event, trace, store) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const busy = event.target instanceof Element && event.target.closest("input, summary, button, [role=button]") !== null;
  const { unit } = store.state;
  const acts = {
    ArrowLeft: () => go(trace, store, -1),
    ArrowRight: () => go(trace, store, 1),
    l: () => store.set({ picture: "lines" }),
    m: () => store.set({ picture: "matrix" }),
    w: () => store.set({ unit: unit === "word" ? "token" : "word" }),
    Escape: () => back(store),
    ...(busy ? {} : { " ": () => play(trace, store) }),
  };
  const act = acts[event.key];
  if (act === undefined || (busy && event.target.type === "range")) return;
  event.preventDefault();
  act();
}

/** One level up: let go of the token, then of the heads that were added, then back to all heads. */
function back(store) {
  const { pinned, heads, playing } = store.state;
  if (playing) store.set({ playing: false });
  else if (pinned !== null) store.set({ pinned: null });
  else if (heads.length > 1) store.set({ heads: [heads[0]] });
  else document.querySelector(".tile[aria-pressed=true]")?.focus();
}
