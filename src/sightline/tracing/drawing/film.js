// The decoding film: one step at a time, what could have been written, what was, and where the chosen heads looked.

import { button, element, fill, tick } from "./dom.js";
import { choose } from "./glance.js";
import { gazeOf } from "./gaze.js";
import { counted, exact, short, signed } from "./numbers.js";
import { clipped, quoted } from "./texts.js";
import { titleOf } from "./trace.js";
import { view } from "./view.js";

const PACE = 900;
const NOUNS = { "masked-language-model": "Gap", classification: "Decision" };

/** Draw the film of a trace that has steps. */
export const film = view("film", (trace, store) => {
  if (trace.steps.length === 0) return null;
  const noun = NOUNS[trace.task] ?? (trace.family === "bert" ? "Decision" : "Step");
  const body = element("div", { class: "film-body" });
  store.watch(["step"], (state) => fill(body, ...candidates(trace, state)));
  const why = element("div", { class: "why" });
  store.watch(["step", "heads", "unit"], (state) => fill(why, ...looks(trace, store, state)));
  const worth = element("div", { class: "why" });
  store.watch(["step"], (state) => fill(worth, ...silenced(trace, state)));
  const node = element("div", { class: "film" }, stepper(trace, store, noun), body, why, worth);
  return { node, data: () => numbers(trace, store.state) };
});

function numbers(trace, state) {
  const { candidates: some, chosen, rank, log_probability: logarithm } = trace.steps[state.step];
  const { weights, row, columnPassage } = gazeOf(trace, { ...state, pointed: null, pinned: null });
  const looked = row === null ? null : trace.units(columnPassage, state.unit).map(({ text }, column) => ({ text, weight: exact(at(weights, row, column)) }));
  return { step: state.step, candidates: some, chosen, rank, log_probability: logarithm, heads: state.heads.map((head) => trace.title(head)), unit: state.unit, looked_at: looked };
}

/** Go a number of steps on, or back. */
export function go(trace, store, by) {
  store.set({ step: Math.max(0, Math.min(trace.steps.length - 1, store.state.step + by)), pointed: null, pinned: null });
}

/** Play from here (from the start, at the end), or stop. */
export function play(trace, store) {
  const { step, playing } = store.state;
  const last = trace.steps.length - 1;
  if (!playing && step === last) store.set({ step: 0 });
  store.set({ playing: !playing && last > 0 });
}

function stepper(trace, store, noun) {
  const last = trace.steps.length - 1;
  const label = element("output", { class: "step-label", "aria-live": "polite" });
  const slider = element("input", { type: "range", min: 0, max: last, step: 1, "aria-label": noun });
  slider.addEventListener("input", () => store.set({ step: Number(slider.value), playing: false }));
  const back = button("◀", () => go(trace, store, -1), { "aria-label": "One step back", title: "One step back (←)" });
  const on = button("▶", () => go(trace, store, 1), { "aria-label": "One step on", title: "One step on (→)" });
  const run = button("Play", () => play(trace, store), { class: "play", title: "Play (space)" });
  let timer = null;
  store.watch(["playing"], ({ playing }) => {
    run.textContent = playing ? "Pause" : "Play";
    clearInterval(timer);
    if (playing) timer = setInterval(() => advance(trace, store), PACE);
  });
  store.onEnd(() => clearInterval(timer));
  store.watch(["step"], ({ step }) => {
    const { candidates: some, chosen } = trace.steps[step];
    fill(label, `${noun} ${step + 1} of ${last + 1}: `, element("b", { dir: "auto" }, clipped(some[chosen].text)));
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
  const items = some.map(({ text, probability }, place) => {
    const bar = element("span", { class: "bar", style: { "--share": String(probability) } });
    const name = element("span", { class: "name", dir: "auto", title: quoted(text) }, place === chosen ? tick() : null, clipped(text));
    const number = element("span", { class: "number" }, short(probability));
    return element("li", { class: place === chosen ? "candidate chosen" : "candidate" }, name, element("span", { class: "track" }, bar), number);
  });
  const order = rank === 0 ? "the likeliest" : `${counted(rank)} ${rank === 1 ? "other was" : "others were"} likelier`;
  return [
    element("h3", {}, "What could stand here"),
    element("ol", { class: "candidates" }, ...items),
    element("p", { class: "note" }, `✓ chosen (${order}); log-probability ${short(logarithm)}`),
  ];
}

/** Where the chosen heads look at this step, and which heads look there most. */
function looks(trace, store, state) {
  const { weights, row, columnPassage } = gazeOf(trace, { ...state, pointed: null, pinned: null });
  if (row === null) return [element("p", { class: "note" }, "These heads read the source; they take no part in a single step. Choose decoder heads below.")];
  const units = trace.units(columnPassage, state.unit);
  const order = Array.from(units.keys()).sort((a, b) => at(weights, row, b) - at(weights, row, a));
  const items = order.slice(0, 4).map((column) =>
    element("li", { class: "look" },
      element("span", { class: "name", dir: "auto" }, clipped(units[column].text)),
      element("span", { class: "track" }, element("span", { class: "bar weight", style: { "--share": String(at(weights, row, column)) } })),
      element("span", { class: "number" }, short(at(weights, row, column))),
    ),
  );
  const who = state.heads.length === 1 ? trace.title(state.heads[0]) : `Mean of ${state.heads.length} heads`;
  return [
    element("h3", {}, `Where it looks: ${who}`),
    element("ol", { class: "candidates" }, ...items),
    element("p", { class: "heads-there" }, "Heads (layer.head) that look most at ", element("b", { dir: "auto" }, quoted(units[order[0]].text)), ": ",
      ...lookers(trace, store, state, row, order[0])),
  ];
}

function lookers(trace, store, { heads, unit }, row, column) {
  const { kind } = trace.attention(heads[0].name);
  const all = trace.attentions
    .filter((attention) => attention.kind === kind)
    .flatMap(({ name, layer }) =>
      Array.from({ length: trace.nHeads(name) }, (_, head) => ({ name, head, layer, weight: trace.between({ name, head }, unit, row, column) })),
    )
    .sort((a, b) => b.weight - a.weight);
  return all.slice(0, 3).map(({ name, head, layer, weight }) =>
    button(`${layer}.${trace.headNumber(head)} (${short(weight)})`, (event) => choose(trace, store, { name, head }, event.shiftKey), { class: "link", title: trace.title({ name, head }) }),
  );
}

/** The heads whose silence would have changed this step most. */
function silenced(trace, { step }) {
  if (trace.effects === null) return [];
  const { attentions, steps: { shape: [, nHeads, nSteps], data } } = trace.effects;
  const probability = Math.exp(trace.steps[step].log_probability);
  const all = attentions
    .flatMap((name, a) => Array.from({ length: nHeads }, (_, head) => ({ name, head, change: data[(a * nHeads + head) * nSteps + step] })))
    .filter(({ change }) => Number.isFinite(change))
    .sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
  const items = all.slice(0, 3).map(({ name, head, change }) =>
    element("li", {}, `without ${titleOf(name, head)}: `, element("b", {}, `${short(probability)} → ${short(Math.min(1, probability * Math.exp(change)))}`),
      element("span", { class: "note" }, ` (log-probability ${signed(change)})`)),
  );
  return [element("h3", {}, "What if a head were silent"), element("ul", { class: "silenced" }, ...items)];
}

function at({ data, columns }, row, column) {
  return data[row * columns + column];
}
