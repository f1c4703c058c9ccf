// What each head is worth: how the log-probability of the output changes when the head is silenced.

import { element, fill } from "./dom.js";
import { choose } from "./glance.js";
import { exact, signed } from "./numbers.js";
import { colourOf, paint } from "./scale.js";
import { view } from "./view.js";

const EXPLAINED = "Change of log-probability without the head";

/** Draw the effects of a trace that has them: of the whole output, or of the current step. */
export const worth = view("worth", (trace, store) => {
  if (trace.effects === null || trace.steps.length === 0) return null;
  const { attentions, steps } = trace.effects;
  const [, nHeads, nSteps] = steps.shape;
  const change = (a, head, step) => {
    const start = (a * nHeads + head) * nSteps;
    return step === null ? steps.data.subarray(start, start + nSteps).reduce((sum, one) => sum + one, 0) : steps.data[start + step];
  };
  const box = element("input", { type: "checkbox" });
  const body = element("div", { class: "scroller" });
  const redraw = ({ step, palette }) => fill(body, table(trace, store, attentions, nHeads, (a, head) => change(a, head, box.checked ? step : null), palette.signed));
  box.addEventListener("change", () => redraw(store.state));
  store.watch(["palette"], redraw);
  store.watch(["step"], (state) => box.checked && redraw(state));
  const ramp = element("span", { class: "scale" }, element("span", {}, "spoke for it"), element("span", { class: "ramp signed" }), element("span", {}, "against it"));
  const node = element("div", { class: "picture" }, element("p", { class: "legend" }, element("label", {}, box, " only the current step"), ramp), element("p", { class: "note" }, EXPLAINED), body);
  const numbers = () => {
    const step = box.checked ? store.state.step : null;
    const changes = attentions.map((name, a) => [name, Array.from({ length: nHeads }, (_, head) => exact(change(a, head, step)))]);
    return { step, change_of_log_probability: Object.fromEntries(changes) };
  };
  return { node, data: numbers };
});

function table(trace, store, attentions, nHeads, change, colours) {
  const all = attentions.flatMap((_, a) => Array.from({ length: nHeads }, (__, head) => Math.abs(change(a, head))));
  const largest = Math.max(1e-9, ...all.filter(Number.isFinite));
  const head = element("tr", {}, element("th", { class: "corner" }, "attention ╲ head"), ...Array.from({ length: nHeads }, (_, h) => element("th", { scope: "col" }, String(h))));
  const rows = attentions.map((name, a) =>
    element("tr", {}, element("th", { scope: "row" }, ...name.split(/(?<=\.)/).flatMap((word) => [word, element("wbr")])), ...Array.from({ length: nHeads }, (_, h) => cell(trace, store, { name, head: h }, change(a, h), largest, colours))),
  );
  return element("table", { class: "worth", "aria-label": EXPLAINED }, element("tbody", {}, head, ...rows));
}

function cell(trace, store, { name, head }, change, largest, colours) {
  const node = element("td", { class: "number", "data-attention": name, "data-head": head }, signed(change));
  paint(node, colourOf(colours, 0.5 + Math.max(-0.5, Math.min(0.5, change / largest / 2))));
  const index = trace.heads === null ? head : trace.heads.indexOf(head);
  if (index < 0 || trace.attention(name) === undefined) return node;
  node.classList.add("opens");
  node.addEventListener("click", (event) => choose(trace, store, { name, head: index }, event.shiftKey));
  return node;
}
