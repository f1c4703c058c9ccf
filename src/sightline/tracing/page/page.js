// The page of a trace: the tokens, one large attention view, the decoding steps next to it, everything else below. The studio
// builds its Watch from the same parts.

import { decodingSteps, go, play } from "./decoding_steps.js";
import { button, element, section } from "./dom.js";
import { describeSource } from "./export.js";
import { headAblation, headGrid } from "./heads.js";
import { alignment, lines } from "./lines.js";
import { logitLens } from "./logit_lens.js";
import { matrix } from "./matrix.js";
import { createStore, stateFromUrl, syncUrl, urlOf } from "./store.js";
import { short } from "./text.js";
import { systemTheme, themeButton } from "./theme.js";
import { tokenStrips } from "./token_strip.js";
import { readTrace } from "./trace.js";
import { tree } from "./tree.js";
import { view } from "./view.js";

/** The sections below the attention views: view, id, title and explanation. */
export const SECTIONS = [
  [alignment, "alignment", "Word alignment from attention", "The largest attention weights between source and target words."],
  [tree, "tree", "Beam search tree", "Every hypothesis of the search, step by step. The bar under a token is its probability; the best result runs along the top."],
  [logitLens, "logit-lens", "Logit lens", "The hidden state after each layer, decoded as if that layer were the last. Early layers were never trained to be decoded this way."],
  [headAblation, "head-ablation", "Head ablation: effect of zeroing each head", "Change in the log-probability of the output when one head is zeroed. Below zero, the head made this output more likely."],
];
/** What the grid of heads shows. */
export const GRID_EXPLANATION = "One small matrix per head, layers down, heads across: rows are queries, columns are keys, stronger colors mean larger weights. Click a head to select it, shift-click to add it";

const NO_HEADS = "This model has no attention heads: there are no weights to draw. Its tokens, steps and candidates are shown.";

/** Draw the trace that is embedded in the document. */
export function drawEmbedded() {
  const { trace, title } = JSON.parse(document.getElementById("trace").textContent);
  draw(document.querySelector("main"), trace, title);
}

/** Draw a trace (in any form that `readTrace` accepts) into an element; return {store, remove}. */
export function draw(root, given, title = null) {
  systemTheme();
  const trace = readTrace(given);
  describeSource(() => ({ model: trace.family, text: trace.source.text || trace.target.text }));
  const store = createStore(trace, stateFromUrl(new URLSearchParams(location.hash.slice(1)), trace));
  return { store, remove: allViews(title)(root, store) };
}

/** All views of a trace as one view. */
function allViews(title) {
  return view("page", (trace, scope) => {
    const parts = [header(scope, title), sentence(scope), attentionViews(trace, scope), ...below(scope), footer(trace)];
    scope.listen(document, "keydown", (event) => keys(event, trace, scope));
    syncUrl(scope, ["heads", "step", "unit", "picture"], writeUrl);
    return { node: element("div", { class: "parts" }, ...parts), data: null };
  });
}

/** Write the state to the URL; the frame of a notebook has none. */
function writeUrl(state) {
  if (location.protocol === "about:") return;
  const params = Object.entries(urlOf(state)).filter(([, value]) => value !== null).map(([name, value]) => `${name}=${value}`);
  history.replaceState(null, "", `#${params.join("&")}`);
}

function header(store, title) {
  const about = title === null ? null : element("p", { class: "title", dir: "auto" }, title);
  return element("header", {}, element("h1", {}, "Sightline"), about, element("div", { class: "tools" }, unitSwitcher(store), themeButton(store)));
}

/** Create the buttons that choose between tokens and words. */
export function unitSwitcher(scope) {
  return switcher(scope, "unit", "Show", { token: "Tokens", word: "Words" });
}

/** A group of buttons, one of which is pressed. */
function switcher(scope, entry, label, options) {
  const buttons = Object.entries(options).map(([value, name]) => button(name, () => scope.set({ [entry]: value }), { "data-value": value }));
  scope.watch([entry], (state) => buttons.forEach((node) => node.setAttribute("aria-pressed", String(node.dataset.value === state[entry]))));
  return element("div", { class: "switcher", role: "group", "aria-label": label }, ...buttons);
}

/** Create the section of the tokens. */
export function sentence(scope) {
  return scope.mount(tokenStrips, element("section", { id: "sentence", "aria-label": "Tokenized text" }));
}

function attentionViews(trace, scope) {
  const left = largeAttention(scope, (choice) => choice);
  const all = part(scope, headGrid, "head-grid", "Attention heads", `${GRID_EXPLANATION}.`);
  const decoding = trace.steps.length > 0 ? steps(scope) : null;
  return element("div", { class: decoding === null ? null : "attention-views" }, left, decoding, all);
}

/** Create the section of the selected heads, as lines or as a matrix; `tools(choice)` returns the tools next to its title. */
export function largeAttention(scope, tools) {
  const heading = element("h2", { id: "attention-title" });
  scope.watch(["trace", "heads"], ({ trace, heads }) => {
    const titles = heads.map((head) => trace.title(head));
    heading.textContent = titles.length > 1 ? `Mean of ${titles.length} heads: ${titles.join("; ")}` : titles[0] ?? "Attention";
  });
  const [asLines, asMatrix] = [scope.mount(lines, element("div")), scope.mount(matrix, element("div"))];
  scope.watch(["picture"], ({ picture }) => {
    asLines.hidden = picture !== "lines";
    asMatrix.hidden = picture !== "matrix";
  });
  const acts = tools(switcher(scope, "picture", "Picture", { lines: "Lines", matrix: "Matrix" }));
  const none = element("p", { class: "explanation" }, NO_HEADS);
  scope.watch(["trace"], ({ trace }) => {
    none.hidden = trace.attentions.length > 0;
    acts.hidden = !none.hidden;
  });
  const bar = element("div", { class: "bar-row" }, heading, acts);
  return element("section", { id: "attention", "aria-labelledby": "attention-title" }, bar, none, asLines, asMatrix);
}

/** Create the section of the decoding steps. */
export function steps(scope) {
  return scope.mount(decodingSteps, element("section", { id: "decoding-steps", "aria-label": "Decoding steps" }));
}

function below(scope) {
  return SECTIONS.map((one) => part(scope, ...one)).filter((one) => one !== null);
}

/** A section with a view; null if the trace has nothing for that view. */
function part(scope, mounted, id, title, explanation) {
  const host = scope.mount(mounted, element("div"));
  return host.firstChild === null ? null : section(id, title, explanation, host);
}

function footer(trace) {
  const ablated = Object.entries(trace.ablated_heads).map(([name, numbers]) => `${name} heads ${numbers.join(", ")}`).join("; ");
  return element("footer", {},
    element("p", {}, describeModel(trace)),
    ablated === "" ? null : element("p", {}, `Ablated heads: ${ablated}`),
    element("p", {}, `Layers and heads are numbered from 0, as in the code. Keys: ← → step, Space play, L lines, M matrix, W words or tokens, Esc back.${precisionOf(trace)} Made with Sightline ${trace.sightline}.`));
}

/** Return a sentence on the precision of the weights, if there are any. */
export function precisionOf({ attentions, precision }) {
  return attentions.length === 0 ? "" : ` Weights are precise to ${precision ?? "the digits shown"}.`;
}

/** Return the sizes of the model and the log-probability of the output, in one line. */
export function describeModel({ family, model, steps: some }) {
  const sizes = Object.entries(model).filter(([name, value]) => /^(d_|n_)|pre_norm|positions$/.test(name) && value !== null);
  const facts = sizes.map(([name, value]) => `${name} ${value}`).join(" · ");
  const sum = some.reduce((all, step) => all + step.log_probability, 0);
  return `${family}: ${facts}${some.length > 0 ? ` · log-probability of the output ${short(sum)}` : ""}`;
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
export function back(store) {
  const { pinned, heads, playing } = store.state;
  if (playing) store.set({ playing: false });
  else if (pinned !== null) store.set({ pinned: null });
  else if (heads.length > 1) store.set({ heads: [heads[0]] });
  else document.querySelector(".tile[aria-pressed=true]")?.focus();
}
