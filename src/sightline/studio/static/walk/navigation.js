// Navigation in Walk through: the tokens at the top, the controls and keyboard shortcuts, the architecture diagram, and
// scrolling between stages.

import { button, element, fill, svg } from "/page/dom.js";
import { clip, isRightToLeft, quote } from "/page/text.js";
import { colorOf, paint } from "/page/theme.js";
import { depth, hasCrossAttention, towersOf } from "./activations.js";

const SEQUENCES = { encoder: ["source", "Source"], decoder: ["inputs", "Decoder"] }; // of a tower, and its name where there are two
const STAGE_MS = 5000; // of each stage while playing
const [WIDE, HIGH, GAP] = [78, 21, 5];
const BOXES = { self_attention: "attention", cross_attention: "cross-att.", feed_forward: "feed-forw.", embedding: "embedding", positions: "+ position", end: "layers", linear: "linear", head: "softmax" };
const SETTLED_MS = 2000;

/** Draw the strips of a trace; return {node, highlight(marks), point}. `choose(sequence, index)` is called on click. */
export function strips(trace, { choose, point }) {
  const towers = towersOf(trace);
  const lists = towers.map((tower) => {
    const [sequence, own] = SEQUENCES[tower];
    const name = towers.length > 1 ? own : "Input";
    const list = element("div", { class: "strip", role: "group", "aria-label": `${name}: tokens`, dir: isRightToLeft(trace[sequence].text) ? "rtl" : "ltr" });
    const chips = trace[sequence].tokens.map(({ text, special }, index) => element("button", { type: "button", class: special ? "token special" : "token", "data-index": index, "aria-pressed": "false", tabindex: -1, dir: "auto" }, clip(text)));
    fill(list, ...chips);
    const on = (event, act) => list.addEventListener(event, ({ target }) => target !== list && act(Number(target.dataset.index)), true);
    on("click", (index) => choose(sequence, index));
    on("mouseenter", (index) => point(sequence, index));
    on("mouseleave", () => point(null, null));
    return { sequence, list, chips, node: element("div", { class: "strip-row" }, element("span", { class: "strip-name" }, name), list) };
  });
  return {
    node: element("div", { class: "strips" }, ...lists.map(({ node }) => node)),
    /** Highlight the selection: {chosen: {source, inputs}, active, shares: {sequence, weights} or null, palette}. */
    highlight: ({ chosen, active, shares, palette }) => lists.forEach(({ sequence, list, chips }) => {
      const within = list.contains(document.activeElement);
      chips.forEach((chip, index) => {
        const lit = chosen[sequence] === index;
        chip.classList.toggle("is-query", lit && sequence === active);
        if ((chip.ariaPressed === "true") !== lit) chip.ariaPressed = String(lit);
        chip.tabIndex = lit ? 0 : -1;
        const share = shares?.sequence === sequence ? shares.weights[index] : 0;
        const color = share < 0.004 ? null : colorOf(palette.weight, share);
        if (chip.tint !== color) paint(chip, (chip.tint = color));
        if (lit) keepInView(list, chip);
        if (lit && within) chip.focus({ preventScroll: true });
      });
    }),
    point: (sequence, index) => lists.forEach((one) => one.chips.forEach((chip, at) => chip.classList.toggle("is-key", one.sequence === sequence && at === index))),
  };
}

/** Scroll only the strip, so that a token is visible. */
function keepInView(list, chip) {
  const left = chip.offsetLeft - list.scrollLeft;
  if (left < 0 || left + chip.offsetWidth > list.clientWidth) list.scrollLeft = chip.offsetLeft - list.clientWidth / 3;
  const top = chip.offsetTop - list.scrollTop;
  if (top < 0 || top + chip.offsetHeight > list.clientHeight) list.scrollTop = chip.offsetTop - chip.offsetHeight - 8;
}

/** Create the controls: previous, next, play, stage, layer and head. */
export function controls(scope, trace, stages, go, context) {
  const choice = (label, name, count) => {
    const node = element("select", { "aria-label": label, on: { change: () => scope.set({ [name]: Number(node.value) }) } }, ...Array.from({ length: count }, (_, at) => element("option", { value: at }, `${label} ${at}`)));
    scope.watch([name], (state) => (node.value = state[name]));
    return node;
  };
  const list = element("select", { class: "which", "aria-label": "Stage", on: { change: () => go(Number(list.value)) } }, ...stages.map(({ title, tower }, at) => element("option", { value: at }, `${at + 1} · ${hasCrossAttention(trace) ? `${tower}: ` : ""}${title}`)));
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

/** Draw the diagram of the stages; return {node, mark(box)}. `go` is called with the first stage of a clicked box. */
export function map(stages, nLayers, go) {
  const towers = [...new Set(stages.map(({ tower }) => tower))];
  const columns = towers.map((tower) => [...new Set(stages.filter((stage) => stage.tower === tower).map(({ box }) => box))]);
  const highest = Math.max(...columns.map(({ length }) => length));
  const [width, height] = [towers.length * (WIDE + 30) + 2, highest * (HIGH + GAP) + 14];
  const boxes = new Map();
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  columns.forEach((column, side) => {
    const x = 24 + side * (WIDE + 30);
    const y = (index) => height - 4 - (index + 1) * (HIGH + GAP);
    const inLayer = column.filter((box) => /attention|feed/.test(box));
    const [first, last] = [column.indexOf(inLayer[0]), column.indexOf(inLayer.at(-1))];
    picture.append(svg("rect", { class: "frame", x: x - 5, y: y(last) - 3, width: WIDE + 10, height: y(first) - y(last) + HIGH + 6, rx: 6 }));
    picture.append(svg("text", { class: "times", x: x - 8, y: y(first) + HIGH / 2, "text-anchor": "end" }, `${nLayers(towers[side])}×`));
    if (side === 1) {
      const top = height - 4 - columns[0].length * (HIGH + GAP);
      const to = y(column.indexOf("decoder.cross_attention")) + HIGH / 2;
      picture.append(svg("path", { class: "across", d: `M${24 + WIDE / 2} ${top}v-8H${x - 14}V${to}H${x}` }));
    }
    column.forEach((box, index) => {
      const [tower, sub, part] = box.split(".");
      const name = part === undefined ? BOXES[sub] : part === "residual" ? "+ add" : "norm";
      const node = svg("g", { class: `stop ${part ?? sub} ${tower}` }, svg("rect", { x, y: y(index), width: WIDE, height: HIGH, rx: 4 }), svg("text", { x: x + WIDE / 2, y: y(index) + HIGH / 2 }, name));
      node.addEventListener("click", () => go(stages.findIndex((stage) => stage.box === box)));
      boxes.set(box, node);
      picture.append(node);
    });
  });
  const title = element("p", { class: "note" }, "Current stage");
  const names = element("p", { class: "towers note" }, towers.length === 2 ? "encoder → decoder" : towers[0]);
  return {
    node: element("div", { class: "map" }, title, picture, names),
    mark: (box) => boxes.forEach((node, name) => node.classList.toggle("here", name === box)),
  };
}

/** Keep the scope's `stage` in sync with scrolling; `isBusy` tells whether sections are still being drawn. Return {go(number), reach()}. */
export function followScroll(scope, nodes, top, isBusy) {
  let aim = null; // the target, until the user scrolls: sections drawn above may move it
  let timer = null;
  const reach = () => aim !== null && scrollTo({ top: nodes[aim].getBoundingClientRect().top + scrollY - top.offsetHeight - 8, behavior: "instant" });
  const free = () => {
    clearTimeout(timer);
    aim = null;
  };
  const settle = () => {
    clearTimeout(timer);
    timer = setTimeout(() => (isBusy() ? settle() : free()), SETTLED_MS);
  };
  const go = (number) => {
    settle();
    aim = Math.max(0, Math.min(nodes.length - 1, number));
    scope.set({ stage: aim });
    reach();
  };
  for (const name of ["wheel", "touchmove", "pointerdown"]) scope.listen(window, name, free);
  scope.listen(window, "keydown", ({ key }) => /^(Page|Home|End|Tab)/.test(key) && free());
  scope.listen(window, "scroll", () => scope.beforeNextFrame("arrive", () => {
    if (aim !== null) return;
    const line = top.offsetHeight + 60;
    scope.set({ stage: Math.max(0, nodes.findLastIndex((node) => node.getBoundingClientRect().top <= line)) });
  }));
  scope.watch(["stage"], ({ stage }) => nodes.forEach((node, at) => node.classList.toggle("here", at === stage)));
  scope.onEnd(free);
  return { go, reach };
}
