// All attention heads: the grid, with a small matrix of each (click selects one, shift-click adds it), and the effect of
// ablating each, as the change in the log-probability of the output.

import { button, element, fill } from "./dom.js";
import { exact, quote, short, withSign } from "./text.js";
import { colorOf, packColors, paint } from "./theme.js";
import { view } from "./view.js";

const SIDE = 44;
const SLICE = 8; // milliseconds
const EXPLAINED = "Change in log-probability when the head is zeroed";

/** Draw the grids of all kinds of attention. */
export const headGrid = view("head-grid", (trace, store) => {
  if (trace.attentions.length === 0) return null;
  const grids = trace.kinds.map((kind) => grid(trace, store, kind));
  const tiles = grids.flatMap(({ tiles: some }) => some);
  const body = element("div", { class: "head-grid" }, ...grids.map(({ node }) => node));
  tiles[0].node.tabIndex = 0;
  let stop = () => undefined;
  // The large view is drawn first; the small ones follow one by one when the browser is idle.
  store.watch(["unit", "palette"], () => {
    stop();
    stop = whenIdle(paintAll(trace, store.state, tiles));
  });
  store.onEnd(() => stop());
  store.watch(["heads"], ({ heads }) => {
    for (const { node, head } of tiles) {
      const chosen = String(heads.some((one) => one.name === head.name && one.head === head.head));
      if (node.ariaPressed !== chosen) node.ariaPressed = chosen;
    }
  });
  body.addEventListener("keydown", (event) => moveFocus(event, tiles));
  return { node: body, data: () => numbers(trace, store.state, tiles) };
});

function* paintAll(trace, { unit, palette }, tiles) {
  const table = packColors(palette.weight);
  for (const tile of tiles) {
    const pooled = poolOnce(trace, tile.head, unit);
    yield;
    paintTile(trace, tile, pooled, unit, table);
    yield;
  }
  const other = unit === "word" ? "token" : "word"; // prepared, so that switching is fast
  for (const { head } of tiles) yield poolOnce(trace, head, other);
}

function poolOnce(trace, head, unit) {
  return trace.once(`pooled ${unit} ${head.name} ${head.head}`, () => pool(trace.weights(head, unit)));
}

/** The largest weight of each head: all that a matrix this small can show. */
function numbers(trace, { unit }, tiles) {
  return tiles.map(({ head }) => {
    const { row, column, most } = poolOnce(trace, head, unit);
    const [rows, columns] = trace.axes(head.name).map((sequence) => trace.units(sequence, unit));
    return { head: trace.title(head), unit, largest: { query: rows[row].text, key: columns[column].text, weight: exact(most) } };
  });
}

/** Select a head alone, or add it to (or remove it from) the selected heads of its kind. */
export function choose(trace, store, head, adding) {
  const { heads } = store.state;
  const kind = trace.attention(head.name).kind;
  const together = adding && trace.attention(heads[0].name).kind === kind;
  const others = heads.filter((one) => one.name !== head.name || one.head !== head.head);
  if (!together) return store.set({ heads: [head] });
  return store.set({ heads: others.length < heads.length && others.length > 0 ? others : [...others, head] });
}

function grid(trace, store, { kind, title, layers }) {
  const tiles = [];
  const nHeads = Math.max(...layers.map(({ name }) => trace.nHeads(name)));
  const head = element("tr", {}, element("td"));
  for (let h = 0; h < nHeads; h++) head.append(element("th", { scope: "col" }, String(trace.headNumber(h))));
  const rows = layers.map(({ name, layer }, l) => {
    const row = element("tr", {}, element("th", { scope: "row" }, String(layer)));
    for (let h = 0; h < trace.nHeads(name); h++) {
      const tile = createTile(trace, store, { name, head: h });
      tiles.push({ ...tile, kind, l, h });
      row.append(element("td", {}, tile.node));
    }
    return row;
  });
  const table = element("table", { class: "grid" }, element("caption", {}, element("b", {}, title)), element("tbody", {}, head, ...rows));
  return { node: element("div", { class: "kind" }, table), tiles };
}

function createTile(trace, store, head) {
  const canvas = element("canvas", { width: 1, height: 1, "aria-hidden": "true" });
  const node = button(canvas, (event) => choose(trace, store, head, event.shiftKey), { class: "tile", tabindex: -1, "aria-pressed": "false", "aria-label": trace.title(head) });
  return { node, canvas, head };
}

/** Max-pool a matrix to the size of a tile. */
function pool({ rows, columns, data }) {
  const [high, wide] = [Math.min(rows, SIDE), Math.min(columns, SIDE)];
  const pooled = new Float32Array(high * wide);
  let best = 0;
  const across = Uint16Array.from({ length: columns }, (_, c) => Math.floor((c * wide) / columns));
  for (let r = 0, at = 0; r < rows; r++) {
    const start = Math.floor((r * high) / rows) * wide;
    for (let c = 0; c < columns; c++, at++) {
      const index = start + across[c];
      if (data[at] > pooled[index]) pooled[index] = data[at];
      if (data[at] > data[best]) best = at;
    }
  }
  return { rows: high, columns: wide, data: pooled, row: Math.floor(best / columns), column: best % columns, most: data[best] };
}

function paintTile(trace, { node, canvas, head }, pooled, unit, table) {
  const [rows, columns] = trace.axes(head.name).map((sequence) => trace.units(sequence, unit));
  const strongest = `largest weight: ${quote(rows[pooled.row].text)} attends to ${quote(columns[pooled.column].text)}, ${short(pooled.most)}`;
  node.ariaLabel = `${trace.title(head)}; ${strongest}`;
  node.title = `${trace.title(head)}\n${strongest}\nclick: select · shift-click: add`;
  const image = new ImageData(pooled.columns, pooled.rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let at = 0; at < pixels.length; at++) pixels[at] = table[Math.round(pooled.data[at] * 255)];
  [canvas.width, canvas.height] = [pooled.columns, pooled.rows];
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function moveFocus(event, tiles) {
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const at = tiles.findIndex(({ node }) => node === document.activeElement);
  if (at < 0 || !(event.key in moves)) return;
  event.preventDefault();
  event.stopPropagation();
  const [down, right] = moves[event.key];
  const { kind, l, h } = tiles[at];
  const next = tiles.find((tile) => tile.kind === kind && tile.l === l + down && tile.h === h + right) ?? tiles[at + down + right];
  if (next === undefined) return;
  tiles[at].node.tabIndex = -1;
  next.node.tabIndex = 0;
  next.node.focus();
}

/** Run a generator in short slices after the next frame, so that the page stays responsive; return a function that stops it. */
function whenIdle(pieces) {
  let timer = null;
  const go = () => {
    const end = performance.now() + SLICE;
    while (performance.now() < end) if (pieces.next().done) return;
    timer = setTimeout(go, SLICE);
  };
  const frame = requestAnimationFrame(() => (timer = setTimeout(go, SLICE)));
  return () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
  };
}

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
  const redraw = ({ step, palette }) => fill(body, ablationTable(trace, store, attentions, nHeads, (a, head) => change(a, head, box.checked ? step : null), palette.signed));
  box.addEventListener("change", () => redraw(store.state));
  store.watch(["palette"], redraw);
  store.watch(["step"], (state) => box.checked && redraw(state));
  const ramp = element("span", { class: "scale" }, element("span", {}, "head helps"), element("span", { class: "ramp signed" }), element("span", {}, "head hurts"));
  const node = element("div", { class: "picture" }, element("p", { class: "legend" }, element("label", {}, box, " current step only"), ramp), element("p", { class: "note" }, EXPLAINED), body);
  const data = () => {
    const step = box.checked ? store.state.step : null;
    const changes = attentions.map((name, a) => [name, Array.from({ length: nHeads }, (_, head) => exact(change(a, head, step)))]);
    return { step, log_probability_change: Object.fromEntries(changes) };
  };
  return { node, data };
});

function ablationTable(trace, store, attentions, nHeads, change, colors) {
  const all = attentions.flatMap((_, a) => Array.from({ length: nHeads }, (__, head) => Math.abs(change(a, head))));
  const largest = Math.max(1e-9, ...all.filter(Number.isFinite));
  const head = element("tr", {}, element("th", { class: "corner" }, "attention ╲ head"), ...Array.from({ length: nHeads }, (_, h) => element("th", { scope: "col" }, String(h))));
  const rows = attentions.map((name, a) =>
    element("tr", {}, element("th", { scope: "row" }, ...name.split(/(?<=\.)/).flatMap((word) => [word, element("wbr")])), ...Array.from({ length: nHeads }, (_, h) => ablationCell(trace, store, { name, head: h }, change(a, h), largest, colors))),
  );
  return element("table", { class: "head-ablation", "aria-label": EXPLAINED }, element("tbody", {}, head, ...rows));
}

function ablationCell(trace, store, { name, head }, change, largest, colors) {
  const node = element("td", { class: "number", "data-attention": name, "data-head": head }, withSign(change));
  paint(node, colorOf(colors, 0.5 + Math.max(-0.5, Math.min(0.5, change / largest / 2))));
  const index = trace.heads === null ? head : trace.heads.indexOf(head);
  if (index < 0 || trace.attention(name) === undefined) return node;
  node.classList.add("selectable");
  node.addEventListener("click", (event) => choose(trace, store, { name, head: index }, event.shiftKey));
  return node;
}
