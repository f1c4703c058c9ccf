// Head ablation: how the log-probability of the output changes when a head is zeroed.

import { element, fill } from "./dom.js";
import { choose } from "./head_grid.js";
import { exact, withSign } from "./numbers.js";
import { colorOf, paint } from "./color_scale.js";
import { view } from "./view.js";

const EXPLAINED = "Change in log-probability when the head is zeroed";

/** Draw the head ablation of a trace that has one: for the whole output, or for the current step. */
export const headAblation = view("head-ablation", (trace, store) => {
  if (trace.headAblation === null || trace.steps.length === 0) return null;
  const { attentions, steps } = trace.headAblation;
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
  const ramp = element("span", { class: "scale" }, element("span", {}, "head helps"), element("span", { class: "ramp signed" }), element("span", {}, "head hurts"));
  const node = element("div", { class: "picture" }, element("p", { class: "legend" }, element("label", {}, box, " current step only"), ramp), element("p", { class: "note" }, EXPLAINED), body);
  const numbers = () => {
    const step = box.checked ? store.state.step : null;
    const changes = attentions.map((name, a) => [name, Array.from({ length: nHeads }, (_, head) => exact(change(a, head, step)))]);
    return { step, log_probability_change: Object.fromEntries(changes) };
  };
  return { node, data: numbers };
});

function table(trace, store, attentions, nHeads, change, colors) {
  const all = attentions.flatMap((_, a) => Array.from({ length: nHeads }, (__, head) => Math.abs(change(a, head))));
  const largest = Math.max(1e-9, ...all.filter(Number.isFinite));
  const head = element("tr", {}, element("th", { class: "corner" }, "attention ╲ head"), ...Array.from({ length: nHeads }, (_, h) => element("th", { scope: "col" }, String(h))));
  const rows = attentions.map((name, a) =>
    element("tr", {}, element("th", { scope: "row" }, ...name.split(/(?<=\.)/).flatMap((word) => [word, element("wbr")])), ...Array.from({ length: nHeads }, (_, h) => cell(trace, store, { name, head: h }, change(a, h), largest, colors))),
  );
  return element("table", { class: "head-ablation", "aria-label": EXPLAINED }, element("tbody", {}, head, ...rows));
}

function cell(trace, store, { name, head }, change, largest, colors) {
  const node = element("td", { class: "number", "data-attention": name, "data-head": head }, withSign(change));
  paint(node, colorOf(colors, 0.5 + Math.max(-0.5, Math.min(0.5, change / largest / 2))));
  const index = trace.heads === null ? head : trace.heads.indexOf(head);
  if (index < 0 || trace.attention(name) === undefined) return node;
  node.classList.add("selectable");
  node.addEventListener("click", (event) => choose(trace, store, { name, head: index }, event.shiftKey));
  return node;
}
