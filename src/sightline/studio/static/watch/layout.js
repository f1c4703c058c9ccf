// The layout of Watch: the output, the tokens, one large attention view, the decoding steps next to it, everything else
// below; and its keyboard shortcuts.

import { go, play } from "/page/decoding_steps.js";
import { button, element, fill, section } from "/page/dom.js";
import { headGrid } from "/page/heads.js";
import { GRID_EXPLANATION, SECTIONS, back, describeModel, largeAttention, precisionOf, sentence, steps, unitSwitcher } from "/page/page.js";
import { ablateButton, ablationPanel, markAblated, outputLine, toggleAblated } from "./ablation.js";

/** Draw all views of the scope's store into an element; they are removed when it ends. */
export function layout(host, scope, acts) {
  scope.onEnd(() => fill(host));
  fill(host, result(scope), sentence(scope), attentionViews(scope, acts), ...below(scope, acts), footer(scope));
  scope.listen(document, "keydown", (event) => keys(event, scope, acts));
}

function result(scope) {
  const output = element("p", { class: "model-output", "aria-live": "polite" });
  scope.watch(["trace"], ({ trace, ablation }) => fill(output, ...outputLine(trace, ablation)));
  return element("div", { class: "bar-row result" }, output, unitSwitcher(scope));
}

function attentionViews(scope, acts) {
  const large = largeAttention(scope, (choice) => element("div", { class: "tools" }, ablateButton(scope, acts), choice));
  const all = part(scope, headGrid, "head-grid", "Attention heads", `${GRID_EXPLANATION}; ablate it to see what the model does without it.`);
  scope.watch(["trace", "ablation"], (state) => markAblated(all, state));
  const decoding = steps(scope);
  return element("div", { class: "attention-views" }, large, hiddenWhileEmpty(scope, decoding, decoding), all, ablationPanel(scope, acts));
}

function below(scope, { measure }) {
  const offer = section("measure", "Head ablation: effect of zeroing each head", "Change in the log-probability of the output when one head is zeroed. This runs the model once per head.", button("Ablate every head", measure));
  scope.watch(["trace"], ({ trace }) => {
    offer.hidden = trace.headAblation !== null || trace.steps.length === 0 || trace.attentions.length === 0;
  });
  return [...SECTIONS.map((one) => part(scope, ...one)), offer];
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
  scope.watch(["trace"], ({ trace }) => {
    facts.textContent = `${describeModel(trace)}.${precisionOf(trace)}`;
  });
  return element("footer", {}, facts, element("p", {}, "Layers and heads are numbered from 0, as in the code. Keys: ← → step, Space play, L lines, M matrix, W words or tokens, K ablate the selected heads, Esc back."));
}

/** Handle a key press. */
function keys(event, store, { ablate }) {
  const { target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (target instanceof Element && target.closest("input:not([type=checkbox]), select, textarea, dialog") !== null) return;
  const pressed = target instanceof Element && target.closest("summary, button, a, [role=button], [type=checkbox]") !== null;
  const { trace, unit } = store.state;
  const acts = {
    l: () => store.set({ picture: "lines" }),
    m: () => store.set({ picture: "matrix" }),
    w: () => store.set({ unit: unit === "word" ? "token" : "word" }),
    ...(store.state.heads.length > 0 ? { k: () => ablate(toggleAblated(store.state)) } : {}),
    Escape: () => back(store),
    ...(trace.steps.length > 0 ? { ArrowLeft: () => step(store, -1), ArrowRight: () => step(store, 1), ...(pressed ? {} : { " ": () => play(trace, store) }) } : {}),
  };
  const act = acts[event.key];
  if (act === undefined) return;
  event.preventDefault();
  act();
}

function step(store, by) {
  store.set({ playing: false });
  go(store.state.trace, store, by);
}
