// The layout of Watch: the tokens, one large attention view, the decoding steps next to it, everything else below.

import { alignment } from "/drawing/alignment.js";
import { button, element, fill, section } from "/drawing/dom.js";
import { decodingSteps } from "/drawing/decoding_steps.js";
import { headGrid } from "/drawing/head_grid.js";
import { logitLens } from "/drawing/logit_lens.js";
import { lines } from "/drawing/lines.js";
import { matrix } from "/drawing/matrix.js";
import { short } from "/drawing/numbers.js";
import { Scope } from "/drawing/scope.js";
import { tokenStrips } from "/drawing/token_strip.js";
import { tree } from "/drawing/tree.js";
import { headAblation } from "/drawing/head_ablation.js";
import { keys } from "./watch_keys.js";
import { ablateButton, markAblated, ablationPanel } from "./watch_ablation.js";
import { outputLine } from "./watch_output.js";

/** Draw all views of a store into an element; return a function that removes them. */
export function layout(host, store, acts) {
  const scope = new Scope(store);
  fill(host, result(scope), sentence(scope), attentionViews(scope, acts), ...below(scope, acts), footer(scope));
  scope.listen(document, "keydown", (event) => keys(event, scope, acts));
  return () => {
    scope.end();
    fill(host);
  };
}

function result(scope) {
  const output = element("p", { class: "model-output", "aria-live": "polite" });
  scope.watch(["trace"], ({ trace, ablation }) => fill(output, ...outputLine(trace, ablation)));
  return element("div", { class: "bar-row result" }, output, switcher(scope, "unit", "Show", { token: "Tokens", word: "Words" }));
}

function sentence(scope) {
  return scope.mount(tokenStrips, element("section", { id: "sentence", "aria-label": "Tokenized text" }));
}

/** A group of buttons, one of which is pressed. */
function switcher(scope, entry, label, options) {
  const buttons = Object.entries(options).map(([value, name]) => button(name, () => scope.set({ [entry]: value }), { "data-value": value }));
  scope.watch([entry], (state) => buttons.forEach((node) => node.setAttribute("aria-pressed", String(node.dataset.value === state[entry]))));
  return element("div", { class: "switcher", role: "group", "aria-label": label }, ...buttons);
}

function attentionViews(scope, acts) {
  const heading = element("h2", { id: "attention-title" });
  scope.watch(["trace", "heads"], ({ trace, heads }) => {
    heading.textContent = heads.length === 1 ? trace.title(heads[0]) : `Mean of ${heads.length} heads: ${heads.map((head) => trace.title(head)).join("; ")}`;
  });
  const [asLines, asMatrix] = [scope.mount(lines, element("div")), scope.mount(matrix, element("div"))];
  scope.watch(["picture"], ({ picture }) => {
    asLines.hidden = picture !== "lines";
    asMatrix.hidden = picture !== "matrix";
  });
  const tools = element("div", { class: "tools" }, ablateButton(scope, acts), switcher(scope, "picture", "Picture", { lines: "Lines", matrix: "Matrix" }));
  const bar = element("div", { class: "bar-row" }, heading, tools);
  const left = element("section", { id: "attention", "aria-labelledby": "attention-title" }, bar, asLines, asMatrix);
  const all = part(scope, headGrid, "head-grid", "Attention heads", "One small matrix per head, layers down, heads across: rows are queries, columns are keys, stronger colors mean larger weights. Click a head to select it, shift-click to add it; ablate it to see what the model does without it.");
  scope.watch(["trace", "ablation"], (state) => markAblated(all, state));
  return element("div", { class: "attention-views" }, left, steps(scope), all, ablationPanel(scope, acts));
}

function steps(scope) {
  const host = scope.mount(decodingSteps, element("section", { id: "decoding-steps", "aria-label": "Decoding steps" }));
  return hiddenWhileEmpty(scope, host, host);
}

function below(scope, { measure }) {
  const effects = part(scope, headAblation, "head-ablation", "Head ablation: effect of zeroing each head", "Change in the log-probability of the output when one head is zeroed. Below zero, the head made this output more likely.");
  const offer = section("measure", "Head ablation: effect of zeroing each head", "Change in the log-probability of the output when one head is zeroed. This runs the model once per head.", button("Ablate every head", measure));
  scope.watch(["trace"], ({ trace }) => {
    offer.hidden = trace.headAblation !== null || trace.steps.length === 0;
  });
  return [
    part(scope, alignment, "alignment", "Word alignment from attention", "The largest attention weights between source and target words."),
    part(scope, tree, "tree", "Beam search tree", "Every hypothesis of the search, step by step. The bar under a token is its probability; the best result runs along the top."),
    part(scope, logitLens, "logit-lens", "Logit lens", "The hidden state after each layer, decoded as if that layer were the last. Early layers were never trained to be decoded this way."),
    effects,
    offer,
  ];
}

/** A section with a view, hidden while the trace has nothing for that view. */
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
    const sizes = Object.entries(model).filter(([name, value]) => /^(d_|n_)|pre_norm|positions$/.test(name) && value !== null);
    const sum = some.reduce((all, step) => all + step.log_probability, 0);
    facts.textContent = `${family}: ${sizes.map(([name, value]) => `${name} ${value}`).join(" · ")}${some.length > 0 ? ` · log-probability of the output ${short(sum)}` : ""}. Weights are precise to ${precision}.`;
  });
  return element("footer", {}, facts, element("p", {}, "Layers and heads are numbered from 0, as in the code. Keys: ← → step, Space play, L lines, M matrix, W words or tokens, K ablate the selected heads, Esc back."));
}
