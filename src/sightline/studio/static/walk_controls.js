// Navigation: buttons, selection of stage, layer and head, and keyboard shortcuts.

import { button, element } from "/drawing/dom.js";
import { quote } from "/drawing/token_text.js";
import { depth } from "./walk_context.js";

const STAGE_MS = 5000;

/** Create the controls: previous, next, play, stage, layer and head. */
export function controls(scope, trace, stages, go, context) {
  const choice = (label, name, count) => {
    const node = element("select", { "aria-label": label, on: { change: () => scope.set({ [name]: Number(node.value) }) } }, ...Array.from({ length: count }, (_, at) => element("option", { value: at }, `${label} ${at}`)));
    scope.watch([name], (state) => (node.value = state[name]));
    return node;
  };
  const list = element("select", { class: "which", "aria-label": "Stage", on: { change: () => go(Number(list.value)) } }, ...stages.map(({ title, tower }, at) => element("option", { value: at }, `${at + 1} · ${trace.family === "transformer" ? `${tower}: ` : ""}${title}`)));
  const back = button("◀", () => go(scope.state.stage - 1), { "aria-label": "Previous stage", title: "Previous stage (↑)" });
  const on = button("▶", () => go(scope.state.stage + 1), { "aria-label": "Next stage", title: "Next stage (↓)" });
  const run = button("Play", () => scope.set({ playing: !scope.state.playing }), { class: "play", title: "Play (space)" });
  const chosen = element("output", { class: "who note", "aria-live": "polite" });
  scope.watch(["stage", "token", "row"], ({ stage }) => {
    list.value = stage;
    back.disabled = stage === 0;
    on.disabled = stage === stages.length - 1;
    const c = context(stages[stage]);
    const step = trace.steps[c.step];
    const prediction = c.tower === "decoder" && step?.row === c.row ? `, predicts ${quote(step.candidates[step.chosen].text)}` : "";
    chosen.textContent = `Token ${quote(c.rowNames[c.row])}${prediction}`;
  });
  let timer = null;
  scope.watch(["playing"], ({ playing }) => {
    run.textContent = playing ? "Pause" : "Play";
    clearInterval(timer);
    if (playing) timer = setInterval(() => (scope.state.stage < stages.length - 1 ? go(scope.state.stage + 1) : scope.set({ playing: false })), STAGE_MS);
  });
  scope.onEnd(() => clearInterval(timer));
  return element("div", { class: "walk-controls" }, back, list, on, run, choice("Layer", "layer", depth(trace)), choice("Head", "head", trace.model.n_heads), chosen);
}

/** Up and down move between stages, left and right between tokens; with Shift between layers and heads; Space plays, Escape clears the selection. */
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
