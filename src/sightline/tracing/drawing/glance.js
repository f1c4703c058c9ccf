// All heads at a glance: layers down, heads across, each a tiny matrix. Click opens one, shift-click adds it.

import { button, element, fill } from "./dom.js";
import { short } from "./numbers.js";
import { colourOf } from "./scale.js";
import { quoted } from "./texts.js";

const SIDE = 44;

/** Draw the grids of all kinds of attention. */
export function glance(trace, store) {
  const body = element("div", { class: "glance" });
  let tiles = [];
  let drawnUnit = null;
  const colourAll = ({ palette }) => tiles.forEach((tile) => colour(tile, palette.weight));
  const pressAll = ({ heads }) => {
    for (const { node, head } of tiles) {
      const chosen = heads.some((one) => one.name === head.name && one.head === head.head);
      node.setAttribute("aria-pressed", String(chosen));
    }
  };
  const build = () => {
    drawnUnit = store.state.unit;
    const made = trace.kinds.map((kind) => grid(trace, store, kind, store.state.unit));
    tiles = made.flatMap(({ tiles: some }) => some);
    tiles[0].node.tabIndex = 0;
    colourAll(store.state);
    pressAll(store.state);
    fill(body, ...made.map(({ node }) => node));
  };
  build();
  // The large picture comes first: the small ones may follow a moment later.
  store.watch(["unit"], ({ unit }) => unit !== drawnUnit && setTimeout(build));
  store.watch(["palette"], colourAll);
  store.watch(["heads"], pressAll);
  body.addEventListener("keydown", (event) => walk(event, tiles));
  return body;
}

/** Choose a head alone, or add it to (or take it from) the chosen ones of its kind. */
export function choose(trace, store, head, adding) {
  const { heads } = store.state;
  const kind = trace.attention(head.name).kind;
  const together = adding && trace.attention(heads[0].name).kind === kind;
  const others = heads.filter((one) => one.name !== head.name || one.head !== head.head);
  if (!together) return store.set({ heads: [head] });
  return store.set({ heads: others.length < heads.length && others.length > 0 ? others : [...others, head] });
}

function grid(trace, store, { kind, title, layers }, unit) {
  const tiles = [];
  const nHeads = Math.max(...layers.map(({ name }) => trace.nHeads(name)));
  const head = element("tr", {}, element("td"));
  for (let h = 0; h < nHeads; h++) head.append(element("th", { scope: "col" }, String(trace.headNumber(h))));
  const rows = layers.map(({ name, layer }, l) => {
    const row = element("tr", {}, element("th", { scope: "row" }, String(layer)));
    for (let h = 0; h < trace.nHeads(name); h++) {
      const tile = made(trace, store, { name, head: h }, unit);
      tiles.push({ ...tile, kind, l, h });
      row.append(element("td", {}, tile.node));
    }
    return row;
  });
  const table = element("table", { class: "grid" }, element("caption", {}, element("b", {}, title)), element("tbody", {}, head, ...rows));
  return { node: element("div", { class: "kind" }, table), tiles };
}

function made(trace, store, head, unit) {
  const weights = trace.weights(head, unit);
  const pooled = trace.once(`pooled ${unit} ${head.name} ${head.head}`, () => pool(weights));
  const canvas = element("canvas", { width: pooled.columns, height: pooled.rows, "aria-hidden": "true" });
  const node = button(canvas, (event) => choose(trace, store, head, event.shiftKey), { class: "tile", tabindex: -1 });
  const [rowPassage, columnPassage] = trace.axes(head.name);
  const strongest = `strongest: ${quoted(trace.units(rowPassage, unit)[pooled.row].text)} looks at ${quoted(trace.units(columnPassage, unit)[pooled.column].text)}, ${short(pooled.most)}`;
  node.setAttribute("aria-label", `${trace.title(head)}; ${strongest}`);
  node.title = `${trace.title(head)}\n${strongest}\nclick: open · shift-click: add`;
  return { node, canvas, head, pooled };
}

/** Return a matrix no larger than a tile: each cell the largest weight of those it stands for. */
function pool({ rows, columns, data }) {
  const [high, wide] = [Math.min(rows, SIDE), Math.min(columns, SIDE)];
  const pooled = new Float32Array(high * wide);
  let best = 0;
  const across = Uint16Array.from({ length: columns }, (_, c) => Math.floor((c * wide) / columns));
  for (let r = 0, at = 0; r < rows; r++) {
    const start = Math.floor((r * high) / rows) * wide;
    for (let c = 0; c < columns; c++, at++) {
      const place = start + across[c];
      if (data[at] > pooled[place]) pooled[place] = data[at];
      if (data[at] > data[best]) best = at;
    }
  }
  return { rows: high, columns: wide, data: pooled, row: Math.floor(best / columns), column: best % columns, most: data[best] };
}

function colour({ canvas, pooled }, table) {
  const image = new ImageData(pooled.columns, pooled.rows);
  pooled.data.forEach((weight, at) => {
    const [red, green, blue] = colourOf(table, weight);
    image.data[4 * at] = red;
    image.data[4 * at + 1] = green;
    image.data[4 * at + 2] = blue;
    image.data[4 * at + 3] = 255;
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function walk(event, tiles) {
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
