// The page of a trace: the tokens, one large attention view, the decoding steps next to it, everything else below.

import { stateFromUrl, syncUrl } from "./url_state.js";
import { alignment } from "./alignment.js";
import { button, element, section } from "./dom.js";
import { decodingSteps, go, play } from "./decoding_steps.js";
import { headGrid } from "./head_grid.js";
import { logitLens } from "./logit_lens.js";
import { lines } from "./lines.js";
import { matrix } from "./matrix.js";
import { createStore } from "./trace_store.js";
import { short } from "./numbers.js";
import { readTrace } from "./read_trace.js";
import { tokenStrips } from "./token_strip.js";
import { systemTheme, themeButton } from "./theme.js";
import { tree } from "./tree.js";
import { view } from "./view.js";
import { headAblation } from "./head_ablation.js";

/** Draw a trace (in any form that `readTrace` accepts) into an element; return {store, remove}. */
export function draw(root, given, title = null) {
  systemTheme();
  const trace = readTrace(given);
  const store = createStore(trace, stateFromUrl(trace));
  return { store, remove: allViews(title)(root, store) };
}

/** All views of a trace as one view. */
function allViews(title) {
  return view("page", (trace, scope) => {
    const parts = [header(scope, title), sentence(scope), attentionViews(trace, scope), ...below(trace, scope), footer(trace)];
    scope.listen(document, "keydown", (event) => keys(event, trace, scope));
    scope.onEnd(syncUrl(scope));
    return { node: element("div", { class: "parts" }, ...parts), data: null };
  });
}

function header(store, title) {
  const choice = switcher(store, "unit", "Show", { token: "Tokens", word: "Words" });
  const about = title === null ? null : element("p", { class: "title", dir: "auto" }, title);
  return element("header", {}, element("h1", {}, "Sightline"), about, element("div", { class: "tools" }, choice, themeButton(store)));
}

/** A group of buttons, one of which is pressed. */
function switcher(store, entry, label, options) {
  const buttons = Object.entries(options).map(([value, name]) => button(name, () => store.set({ [entry]: value }), { "data-value": value }));
  store.watch([entry], (state) => buttons.forEach((node) => node.setAttribute("aria-pressed", String(node.dataset.value === state[entry]))));
  return element("div", { class: "switcher", role: "group", "aria-label": label }, ...buttons);
}

function sentence(scope) {
  return scope.mount(tokenStrips, element("section", { id: "sentence", "aria-label": "Tokenized text" }));
}

function attentionViews(trace, scope) {
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
  const all = part(scope, headGrid, "head-grid", "Attention heads", "One small matrix per head, layers down, heads across: rows are queries, columns are keys, stronger colors mean larger weights. Click a head to select it, shift-click to add it.");
  if (trace.steps.length === 0) return element("div", {}, left, all);
  const right = scope.mount(decodingSteps, element("section", { id: "decoding-steps", "aria-label": "Decoding steps" }));
  return element("div", { class: "attention-views" }, left, right, all);
}

function below(trace, scope) {
  const parts = [
    part(scope, alignment, "alignment", "Word alignment from attention", "The largest attention weights between source and target words."),
    part(scope, tree, "tree", "Beam search tree", "Every hypothesis of the search, step by step. The bar under a token is its probability; the best result runs along the top."),
    part(scope, logitLens, "logit-lens", "Logit lens", "The hidden state after each layer, decoded as if that layer were the last. Early layers were never trained to be decoded this way."),
    part(scope, headAblation, "head-ablation", "Head ablation: effect of zeroing each head", "Change in the log-probability of the output when one head is zeroed. Below zero, the head made this output more likely."),
  ];
  return parts.filter((one) => one !== null);
}

/** A section with a view; null if the trace has nothing for that view. */
function part(scope, mounted, id, title, explanation) {
  const host = scope.mount(mounted, element("div"));
  return host.firstChild === null ? null : section(id, title, explanation, host);
}

function footer({ family, model, steps, sightline, precision, ablated_heads: heads }) {
  const sizes = Object.entries(model).filter(([name, value]) => /^(d_|n_)|pre_norm|positions$/.test(name) && value !== null);
  const facts = sizes.map(([name, value]) => `${name} ${value}`).join(" · ");
  const sum = steps.reduce((all, step) => all + step.log_probability, 0);
  const ablated = Object.entries(heads).map(([name, numbers]) => `${name} heads ${numbers.join(", ")}`).join("; ");
  return element("footer", {},
    element("p", {}, `${family}: ${facts}${steps.length > 0 ? ` · log-probability of the output ${short(sum)}` : ""}`),
    ablated === "" ? null : element("p", {}, `Ablated heads: ${ablated}`),
    element("p", {}, `Layers and heads are numbered from 0, as in the code. Keys: ← → step, Space play, L lines, M matrix, W words or tokens, Esc back. Weights are precise to ${precision ?? "the digits shown"}. Made with Sightline ${sightline}.`));
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

/** Go back one level: unpin the token, then drop added heads, then focus the grid of heads. */
function back(store) {
  const { pinned, heads, playing } = store.state;
  if (playing) store.set({ playing: false });
  else if (pinned !== null) store.set({ pinned: null });
  else if (heads.length > 1) store.set({ heads: [heads[0]] });
  else document.querySelector(".tile[aria-pressed=true]")?.focus();
}
