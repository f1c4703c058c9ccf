// The grid of all attention heads: layers down, heads across, each a small matrix. Click selects one, shift-click adds it.

import { button, element } from "./dom.js";
import { whenIdle } from "./idle.js";
import { exact, short } from "./numbers.js";
import { packColors } from "./color_scale.js";
import { quote } from "./token_text.js";
import { view } from "./view.js";

const SIDE = 44;

/** Draw the grids of all kinds of attention. */
export const headGrid = view("head-grid", (trace, store) => {
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
    paint(trace, tile, pooled, unit, table);
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

function paint(trace, { node, canvas, head }, pooled, unit, table) {
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
