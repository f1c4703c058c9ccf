// The attention matrix of the selected heads: one cell per query-key pair, drawn on a canvas in whole pixels, and the same
// weights as a table, for screen readers and for copying.

import { element, fill, role, svg } from "./dom.js";
import { nameHeads, selectedWeights, selectionOf } from "./store.js";
import { FAMILY, clip, fontOf, quote, short, textWidth, visible } from "./text.js";
import { colorOf, cssColor, packColors, textColorOn } from "./theme.js";
import { view } from "./view.js";

const MAX_CELL = 46;
const MIN_LABELED_CELL = 11;
const MIN_NUMBERED_CELL = 38;
const MAX_CELLS = 2500; // in a file or a table; more are one image or one row
const EDGE = 3; // room for the outline of the last row and column

/** Draw the matrix of the selected heads. */
export const matrix = view("matrix", (trace, store) => {
  if (trace.attentions.length === 0) return null;
  const picture = element("canvas", { class: "cells" });
  const marks = element("canvas", { class: "marks" });
  const frame = element("div", { class: "matrix", tabindex: 0, role: "img" }, picture, marks);
  const readout = element("output", { class: "readout", "aria-live": "polite" });
  const note = element("p", { class: "note" });
  const gauge = element("div");
  const grid = { trace, store, picture, marks, frame, readout, note, cell: null, plan: null, width: 0 };
  const redraw = (state) => grid.width > 0 && draw(grid, state);
  store.watch(["heads", "unit", "palette"], redraw);
  store.watch(["hovered", "pinned", "hoveredKey", "step"], (state) => grid.plan !== null && grid.width > 0 && mark(grid, state));
  store.measure(gauge, (width) => {
    grid.width = width;
    redraw(store.state);
  });
  picture.toSvg = () => cells(grid, store.state);
  frame.addEventListener("pointermove", (event) => enter(grid, cellAt(grid, event)));
  frame.addEventListener("pointerdown", (event) => enter(grid, cellAt(grid, event)));
  frame.addEventListener("pointerleave", () => enter(grid, null));
  frame.addEventListener("blur", () => enter(grid, null));
  frame.addEventListener("keydown", (event) => moveCell(grid, event));
  const node = element("div", { class: "picture" }, gauge, legend(), frame, readout, note, weightsTable(trace, store));
  return { node, data: () => selectedWeights(trace, store.state), name: () => nameHeads(trace, store.state, "matrix") };
});

function legend() {
  return element(
    "p",
    { class: "legend" },
    role("query", "rows: queries"),
    role("key", "columns: keys"),
    element("span", { class: "scale" }, element("span", {}, "0"), element("span", { class: "ramp" }), element("span", {}, "1")),
  );
}

function draw(grid, state) {
  const { trace, picture, marks, frame, note } = grid;
  const { weights, rowSequence, columnSequence } = selectionOf(trace, state);
  const rows = trace.units(rowSequence, state.unit);
  const columns = trace.units(columnSequence, state.unit);
  const plan = planLayout(rows, columns, grid.width);
  Object.assign(grid, { plan, rows, columns, weights, rowSequence, columnSequence });
  for (const canvas of [picture, marks]) size(canvas, plan);
  const brush = picture.getContext("2d");
  paintCells(brush, weights, plan, state.palette.weight);
  const ink = getComputedStyle(frame).color;
  if (plan.labeled) paintLabels(brush, plan, rows, columns, ink);
  frame.style.setProperty("height", `${plan.height}px`);
  frame.setAttribute("aria-label", `Attention matrix, ${rows.length} rows by ${columns.length} columns. Use the arrow keys to move between cells.`);
  note.textContent = plan.labeled ? "" : `${rows.length} × ${columns.length} cells${plan.width > grid.width ? ", wider than the page: scroll sideways" : ""}; hover over one to see its tokens.`;
  mark(grid, state);
}

function planLayout(rows, columns, given) {
  const width = Math.max(100, given); // the window may have no width yet
  const ratio = window.devicePixelRatio || 1;
  const font = fontOf(12);
  const widest = (units) => Math.ceil(Math.max(...units.map((unit) => textWidth(clip(unit.text, 12), font)), 10)) + 8;
  const [left, top] = [Math.min(widest(rows), width * 0.3), widest(columns)];
  const room = Math.min((width - left - EDGE) / columns.length, Math.max(620 / rows.length, 1), MAX_CELL);
  const labeled = room >= MIN_LABELED_CELL;
  const [x, y] = labeled ? [left, top] : [0, 0];
  const bare = Math.min((width - EDGE) / columns.length, Math.max(620 / rows.length, 1), MAX_CELL);
  const cell = Math.max(1, Math.floor((labeled ? room : bare) * ratio)) / ratio;
  return { x, y, cell, ratio, labeled, width: x + cell * columns.length + EDGE, height: y + cell * rows.length + EDGE };
}

function size(canvas, { width, height, ratio }) {
  canvas.width = Math.ceil(width * ratio);
  canvas.height = Math.ceil(height * ratio);
  canvas.style.setProperty("width", `${canvas.width / ratio}px`);
  canvas.style.setProperty("height", `${canvas.height / ratio}px`);
}

function paintCells(brush, { rows, columns, data }, { x, y, cell, ratio }, table) {
  const image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const packed = packColors(table);
  for (let at = 0; at < data.length; at++) pixels[at] = packed[Math.round(data[at] * 255)];
  const small = new OffscreenCanvas(columns, rows);
  small.getContext("2d").putImageData(image, 0, 0);
  brush.imageSmoothingEnabled = false;
  const [left, top, step] = [Math.round(x * ratio), Math.round(y * ratio), Math.round(cell * ratio)];
  brush.canvas.dataset.plan = `${left} ${top} ${step}`; // where the cells are, in pixels, for tests that read them back
  brush.drawImage(small, left, top, columns * step, rows * step);
  if (cell < MIN_NUMBERED_CELL) return;
  brush.font = fontOf(11 * ratio);
  brush.textAlign = "center";
  brush.textBaseline = "middle";
  data.forEach((weight, at) => {
    if (weight < 0.005) return; // a matrix full of 0.00 would hide the others
    brush.fillStyle = textColorOn(colorOf(table, weight));
    brush.fillText(weight.toFixed(2), left + ((at % columns) + 0.5) * step, top + (Math.floor(at / columns) + 0.5) * step);
  });
}

function paintLabels(brush, plan, rows, columns, ink) {
  const { x, y, cell, ratio } = plan;
  brush.fillStyle = ink;
  brush.font = fontOf(Math.min(12, cell) * ratio);
  brush.textBaseline = "middle";
  brush.textAlign = "right";
  rows.forEach((unit, r) => brush.fillText(clip(unit.text, 12), (x - 5) * ratio, (y + (r + 0.5) * cell) * ratio, (x - 6) * ratio));
  brush.textAlign = "left";
  columns.forEach((unit, c) => {
    brush.save();
    brush.translate((x + (c + 0.5) * cell) * ratio, (y - 5) * ratio);
    brush.rotate(-Math.PI / 2);
    brush.fillText(clip(unit.text, 12), 0, 0);
    brush.restore();
  });
}

/** The same as paintCells and paintLabels in SVG: cells as rectangles if there are few, labels as text. */
function cells({ picture, plan, weights, rows, columns, frame }, { palette }) {
  const { x, y, cell } = plan;
  const color = getComputedStyle(frame).color;
  const few = weights.data.length <= MAX_CELLS;
  const wide = { width: plan.width, height: plan.height, href: few ? null : picture.toDataURL(), "image-rendering": "pixelated" };
  if (!few) return [svg("image", wide)];
  const name = ({ text }, attributes) => svg("text", { "font-family": FAMILY, "font-size": Math.min(12, cell), fill: color, "dominant-baseline": "central", ...attributes }, clip(text, 12));
  const squares = Array.from(weights.data, (weight, at) => {
    const [left, top] = [x + (at % columns.length) * cell, y + Math.floor(at / columns.length) * cell];
    const shade = colorOf(palette.weight, weight);
    const number = cell < MIN_NUMBERED_CELL || weight < 0.005 ? null
      : svg("text", { x: left + cell / 2, y: top + cell / 2, "font-family": FAMILY, "font-size": 11, "font-weight": 500, "text-anchor": "middle", "dominant-baseline": "central", fill: textColorOn(shade) }, weight.toFixed(2));
    return svg("g", {}, svg("rect", { x: left, y: top, width: cell, height: cell, fill: cssColor(shade) }), number);
  });
  if (!plan.labeled) return squares;
  const lefts = rows.map((unit, r) => name(unit, { x: x - 5, y: y + (r + 0.5) * cell, "text-anchor": "end" }));
  const tops = columns.map((unit, c) => name(unit, { transform: `translate(${x + (c + 0.5) * cell} ${y - 5}) rotate(-90)` }));
  return [...squares, ...lefts, ...tops];
}

/** Outline the highlighted row or column and the hovered cell; show its weight. */
function mark(grid, state) {
  const { trace, marks, plan, weights, cell, readout, frame } = grid;
  const { x, y, ratio } = plan;
  const { row, column } = selectionOf(trace, state);
  const brush = marks.getContext("2d");
  const style = getComputedStyle(frame);
  brush.setTransform(ratio, 0, 0, ratio, 0, 0);
  brush.clearRect(0, 0, plan.width, plan.height);
  brush.lineWidth = 2;
  const outline = (color, left, top, wide, high) => {
    brush.strokeStyle = style.getPropertyValue(color);
    brush.strokeRect(left - 1, top - 1, wide + 2, high + 2); // around it, so that the outlined cells stay visible
  };
  const [wide, high] = [weights.columns * plan.cell, weights.rows * plan.cell];
  if (row !== null) outline("--query", x, y + row * plan.cell, wide, plan.cell);
  if (column !== null) outline("--key", x + column * plan.cell, y, plan.cell, high);
  if (cell !== null) {
    outline("--key", x + cell.column * plan.cell, y, plan.cell, high);
    outline("--query", x, y + cell.row * plan.cell, wide, plan.cell);
  }
  fill(readout, ...describeCell(grid, cell ?? largestInRow(weights, row)));
}

function largestInRow({ data, columns }, row) {
  if (row === null) return null;
  let best = 0;
  for (let c = 1; c < columns; c++) if (data[row * columns + c] > data[row * columns + best]) best = c;
  return { row, column: best, most: true };
}

function describeCell({ weights, rows, columns, store }, cell) {
  if (cell === null) return [element("span", { class: "hint" }, "Hover over a cell, or use the arrow keys.")];
  const weight = weights.data[cell.row * weights.columns + cell.column];
  const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
  swatch.style.setProperty("background-color", cssColor(colorOf(store.state.palette.weight, weight)));
  return [
    swatch,
    element("b", { class: "query" }, quote(rows[cell.row].text)),
    cell.most ? " attends most to " : " attends to ",
    element("b", { class: "key" }, quote(columns[cell.column].text)),
    ": ",
    element("b", { class: "number" }, short(weight)),
  ];
}

function enter(grid, cell) {
  const { trace, store, rowSequence, columnSequence, rows, columns } = grid;
  if (cell !== null && grid.cell !== null && cell.row === grid.cell.row && cell.column === grid.cell.column) return;
  grid.cell = cell;
  if (cell === null) return store.set({ hovered: null, hoveredKey: null });
  const hovered = trace.canonical({ sequence: rowSequence, index: rows[cell.row].tokens[0] });
  return store.set({ hovered, hoveredKey: trace.canonical({ sequence: columnSequence, index: columns[cell.column].tokens[0] }) });
}

function cellAt({ picture, plan, weights }, event) {
  const box = picture.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - plan.x) / plan.cell);
  const row = Math.floor((event.clientY - box.top - plan.y) / plan.cell);
  return row >= 0 && column >= 0 && row < weights.rows && column < weights.columns ? { row, column } : null;
}

function moveCell(grid, event) {
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  if (!(event.key in moves)) return;
  event.preventDefault();
  event.stopPropagation();
  const { row, column } = grid.cell ?? { row: 0, column: -moves[event.key][1] };
  const within = (index, count) => Math.max(0, Math.min(count - 1, index));
  const [down, right] = grid.cell === null ? [0, moves[event.key][1]] : moves[event.key];
  enter(grid, { row: within(row + down, grid.weights.rows), column: within(column + right, grid.weights.columns) });
  const at = grid.plan.x + grid.cell.column * grid.plan.cell;
  const { scrollLeft, clientWidth } = grid.frame;
  if (at < scrollLeft || at + grid.plan.cell > scrollLeft + clientWidth) grid.frame.scrollLeft = at - clientWidth / 2; // a long matrix
}

/** Create the collapsible table of the selected heads' weights. */
function weightsTable(trace, store) {
  const body = element("div", { class: "scroller" });
  const folded = element("details", { class: "numbers" }, element("summary", {}, "Weights as a table"), body);
  const redraw = () => folded.open && fill(body, ...tables(trace, store.state));
  folded.addEventListener("toggle", redraw);
  store.watch(["heads", "unit", "step", "pinned"], redraw);
  return folded;
}

function tables(trace, state) {
  const selection = selectionOf(trace, { ...state, hovered: null });
  const rows = trace.units(selection.rowSequence, state.unit);
  const columns = trace.units(selection.columnSequence, state.unit);
  if (rows.length * columns.length <= MAX_CELLS) return [table(selection.weights, rows, columns, rows.map((_, r) => r))];
  const row = selection.row ?? 0;
  const note = `${rows.length} rows are too many to show: this is the row of the current step or of the pinned token.`;
  return [element("p", { class: "note" }, note), table(selection.weights, rows, columns, [row])];
}

function table({ data, columns: width }, rows, columns, shown) {
  const name = (unit, scope) => element("th", { scope, dir: "auto" }, visible(unit.text));
  const head = element("tr", {}, element("td"), ...columns.map((unit) => name(unit, "col")));
  const body = shown.map((r) =>
    element("tr", {}, name(rows[r], "row"), ...columns.map((_, c) => element("td", {}, short(data[r * width + c])))),
  );
  return element("table", {}, element("caption", {}, "Rows are queries, columns are keys"), element("thead", {}, head), element("tbody", {}, ...body));
}
