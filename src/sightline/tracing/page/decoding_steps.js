// Decoding step by step: the candidates, the chosen token, and what the selected heads attend to.

import { button, element, fill, tick } from "./dom.js";
import { choose } from "./heads.js";
import { selectionOf } from "./store.js";
import { clip, exact, groupDigits, quote, short, withSign } from "./text.js";
import { titleOf } from "./trace.js";
import { view } from "./view.js";

const STEP_MS = 900;
const NOUNS = { tokens: "Step", masks: "Mask", classes: "Prediction" }; // a step, by what it predicts

/** Draw the steps of a trace that has any. */
export const decodingSteps = view("decoding-steps", (trace, store) => {
  if (trace.steps.length === 0) return null;
  const noun = NOUNS[trace.predicts];
  const body = element("div", { class: "candidates-now" });
  store.watch(["step"], (state) => fill(body, ...candidates(trace, state)));
  const attended = element("div", { class: "why" });
  store.watch(["step", "heads", "unit"], (state) => fill(attended, ...mostAttended(trace, store, state)));
  const ablation = element("div", { class: "why" });
  store.watch(["step"], (state) => fill(ablation, ...largestAblations(trace, state)));
  const node = element("div", { class: "decoding-steps" }, stepper(trace, store, noun), body, attended, ablation);
  return { node, data: () => numbers(trace, store.state) };
});

function numbers(trace, state) {
  const { candidates: some, chosen, rank, log_probability: logarithm } = trace.steps[state.step];
  const { weights, row, columnSequence } = selectionOf(trace, { ...state, hovered: null, pinned: null });
  const attended = row === null ? null : trace.units(columnSequence, state.unit).map(({ text }, column) => ({ text, weight: exact(at(weights, row, column)) }));
  return { step: state.step, candidates: some, chosen, rank, log_probability: logarithm, heads: state.heads.map((head) => trace.title(head)), unit: state.unit, attended };
}

/** Move forward or back by a number of steps. */
export function go(trace, store, by) {
  store.set({ step: Math.max(0, Math.min(trace.steps.length - 1, store.state.step + by)), hovered: null, pinned: null });
}

/** Play from here (at the end, from the start), or pause. */
export function play(trace, store) {
  const { step, playing } = store.state;
  const last = trace.steps.length - 1;
  if (!playing && step === last) store.set({ step: 0 });
  store.set({ playing: !playing && last > 0 });
}

/** Return the start of a window of `size` out of `count` steps: unchanged until the step comes near an edge. */
export function windowStart(before, step, count, size) {
  const inside = before !== null && step >= before + Math.min(2, before) && step < before + size - (before + size < count ? 2 : 0);
  return inside ? before : Math.max(0, Math.min(step - Math.floor(size / 2), count - size));
}

function stepper(trace, store, noun) {
  const last = trace.steps.length - 1;
  const label = element("output", { class: "step-label", "aria-live": "polite" });
  const slider = element("input", { type: "range", min: 0, max: last, step: 1, "aria-label": noun });
  slider.addEventListener("input", () => store.set({ step: Number(slider.value), playing: false }));
  const back = button("◀", () => go(trace, store, -1), { "aria-label": "Previous step", title: "Previous step (←)" });
  const on = button("▶", () => go(trace, store, 1), { "aria-label": "Next step", title: "Next step (→)" });
  const run = button("Play", () => play(trace, store), { class: "play", title: "Play (space)" });
  let timer = null;
  store.watch(["playing"], ({ playing }) => {
    run.textContent = playing ? "Pause" : "Play";
    clearInterval(timer);
    if (playing) timer = setInterval(() => advance(trace, store), STEP_MS);
  });
  store.onEnd(() => clearInterval(timer));
  store.watch(["step"], ({ step }) => {
    const { candidates: some, chosen } = trace.steps[step];
    fill(label, `${noun} ${step + 1} of ${last + 1}: `, element("b", { dir: "auto" }, clip(some[chosen].text)));
    slider.value = String(step);
    back.disabled = step === 0;
    on.disabled = step === last;
  });
  return element("div", { class: "stepper" }, label, last > 0 ? element("div", { class: "controls" }, back, run, on, slider) : null);
}

function advance(trace, store) {
  if (store.state.step < trace.steps.length - 1) go(trace, store, 1);
  else store.set({ playing: false });
}

function candidates(trace, { step }) {
  const { candidates: some, chosen, rank, log_probability: logarithm } = trace.steps[step];
  const items = some.map(({ text, probability }, index) => {
    const bar = element("span", { class: "bar", style: { "--share": String(probability) } });
    const name = element("span", { class: "name", dir: "auto", title: quote(text) }, index === chosen ? tick() : null, clip(text));
    const number = element("span", { class: "number" }, short(probability));
    return element("li", { class: index === chosen ? "candidate chosen" : "candidate" }, name, element("span", { class: "track" }, bar), number);
  });
  const order = `rank ${groupDigits(rank + 1)}`;
  return [
    element("h3", {}, "Candidates"),
    element("ol", { class: "candidates" }, ...items),
    element("p", { class: "note" }, `✓ chosen (${order}), log-probability ${short(logarithm)}`),
  ];
}

/** What the selected heads attend to at this step, and the heads that attend to it most. */
function mostAttended(trace, store, state) {
  if (state.heads.length === 0) return [];
  const { weights, row, columnSequence } = selectionOf(trace, { ...state, hovered: null, pinned: null });
  if (row === null) return [element("p", { class: "note" }, "These are encoder heads: they do not belong to a decoding step. Select decoder heads below.")];
  const units = trace.units(columnSequence, state.unit);
  const order = Array.from(units.keys()).sort((a, b) => at(weights, row, b) - at(weights, row, a));
  const items = order.slice(0, 4).map((column) =>
    element("li", { class: "attended" },
      element("span", { class: "name", dir: "auto" }, clip(units[column].text)),
      element("span", { class: "track" }, element("span", { class: "bar weight", style: { "--share": String(at(weights, row, column)) } })),
      element("span", { class: "number" }, short(at(weights, row, column))),
    ),
  );
  const who = state.heads.length === 1 ? trace.title(state.heads[0]) : `Mean of ${state.heads.length} heads`;
  return [
    element("h3", {}, `Most attended tokens: ${who}`),
    element("ol", { class: "candidates" }, ...items),
    element("p", { class: "heads-there" }, "Heads (layer.head) that attend most to ", element("b", { dir: "auto" }, quote(units[order[0]].text)), ": ",
      ...topHeads(trace, store, state, row, order[0])),
  ];
}

function topHeads(trace, store, { heads, unit }, row, column) {
  const { kind } = trace.attention(heads[0].name);
  const all = trace.attentions
    .filter((attention) => attention.kind === kind)
    .flatMap(({ name, layer }) =>
      Array.from({ length: trace.nHeads(name) }, (_, head) => ({ name, head, layer, weight: trace.weightBetween({ name, head }, unit, row, column) })),
    )
    .sort((a, b) => b.weight - a.weight);
  return all.slice(0, 3).map(({ name, head, layer, weight }) =>
    button(`${layer}.${trace.headNumber(head)} (${short(weight)})`, (event) => choose(trace, store, { name, head }, event.shiftKey), { class: "link", title: trace.title({ name, head }) }),
  );
}

/** The heads whose ablation changes this step most. */
function largestAblations(trace, { step }) {
  if (trace.headAblation === null) return [];
  const { attentions, steps: { shape: [, nHeads, nSteps], data } } = trace.headAblation;
  const probability = Math.exp(trace.steps[step].log_probability);
  const all = attentions
    .flatMap((name, a) => Array.from({ length: nHeads }, (_, head) => ({ name, head, change: data[(a * nHeads + head) * nSteps + step] })))
    .filter(({ change }) => Number.isFinite(change))
    .sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
  const items = all.slice(0, 3).map(({ name, head, change }) =>
    element("li", {}, `without ${titleOf(name, head)}: `, element("b", {}, `${short(probability)} → ${short(Math.min(1, probability * Math.exp(change)))}`),
      element("span", { class: "note" }, ` (log-probability ${withSign(change)})`)),
  );
  return [element("h3", {}, "Effect of ablating a head"), element("ul", { class: "ablations" }, ...items)];
}

function at({ data, columns }, row, column) {
  return data[row * columns + column];
}
