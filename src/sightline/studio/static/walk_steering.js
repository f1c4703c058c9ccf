// How one moves: buttons, the choice of stage, layer and head, and keys.

import { button, element } from "/drawing/dom.js";
import { quoted } from "/drawing/texts.js";
import { depth } from "./walk_context.js";

const PACE = 5000;

/** Layer, head, and the buttons that step. */
export function steering(scope, trace, stages, go, context) {
  const choice = (label, name, count) => {
    const node = element("select", { "aria-label": label, on: { change: () => scope.set({ [name]: Number(node.value) }) } }, ...Array.from({ length: count }, (_, at) => element("option", { value: at }, `${label} ${at}`)));
    scope.watch([name], (state) => (node.value = state[name]));
    return node;
  };
  const list = element("select", { class: "which", "aria-label": "Stage", on: { change: () => go(Number(list.value)) } }, ...stages.map(({ title, tower }, at) => element("option", { value: at }, `${at + 1} · ${trace.family === "transformer" ? `${tower}: ` : ""}${title}`)));
  const back = button("◀", () => go(scope.state.stage - 1), { "aria-label": "One stage back", title: "One stage back (↑)" });
  const on = button("▶", () => go(scope.state.stage + 1), { "aria-label": "One stage on", title: "One stage on (↓)" });
  const run = button("Play", () => scope.set({ playing: !scope.state.playing }), { class: "play", title: "Play (space)" });
  const chosen = element("output", { class: "who note", "aria-live": "polite" });
  scope.watch(["stage", "token", "row"], ({ stage }) => {
    list.value = stage;
    back.disabled = stage === 0;
    on.disabled = stage === stages.length - 1;
    const c = context(stages[stage]);
    const step = trace.steps[c.step];
    const writes = c.tower === "decoder" && step?.row === c.row ? `, writes ${quoted(step.candidates[step.chosen].text)}` : "";
    chosen.textContent = `Following ${quoted(c.rowNames[c.row])}${writes}`;
  });
  let timer = null;
  scope.watch(["playing"], ({ playing }) => {
    run.textContent = playing ? "Pause" : "Play";
    clearInterval(timer);
    if (playing) timer = setInterval(() => (scope.state.stage < stages.length - 1 ? go(scope.state.stage + 1) : scope.set({ playing: false })), PACE);
  });
  scope.onEnd(() => clearInterval(timer));
  return element("div", { class: "steering" }, back, list, on, run, choice("Layer", "layer", depth(trace)), choice("Head", "head", trace.model.n_heads), chosen);
}

/** Up and down step through stages, left and right through tokens; with shift through layers and heads; space plays; Escape lets go. */
export function keys(event, scope, trace, stages, go, context) {
  const { key, shiftKey, target } = event;
  const typing = target instanceof Element && target.closest("input, select, textarea, dialog, .scroller") !== null;
  const pressing = key === " " && target instanceof Element && target.closest("button, summary, a") !== null;
  if (typing || pressing || event.altKey || event.ctrlKey || event.metaKey) return;
  const { state } = scope;
  const c = context(stages[state.stage]);
  const within = (value, count) => Math.max(0, Math.min(count - 1, value));
  const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[key];
  const along = key === "ArrowLeft" || key === "ArrowRight";
  if (key === " ") scope.set({ playing: !state.playing });
  else if (key === "Escape") scope.set({ playing: false, key: null, number: 0 });
  else if (by === undefined) return;
  else if (shiftKey && along) scope.set({ head: within(state.head + by, trace.model.n_heads) });
  else if (shiftKey) scope.set({ layer: within(state.layer + by, depth(trace)) });
  else if (along) scope.set({ [c.tower === "encoder" ? "token" : "row"]: within(c.row + by, c.rowNames.length) });
  else go(state.stage + by);
  event.preventDefault();
}
