// The attention matrix of the chosen heads: one cell for every pair, drawn on a canvas in whole pixels.

import { ruled } from "./afterwards.js";
import { element, fill } from "./dom.js";
import { gazeOf } from "./gaze.js";
import { short } from "./numbers.js";
import { fontOf, textWidth } from "./rows.js";
import { colourOf, css, inkOn } from "./scale.js";
import { numbersTable } from "./table.js";
import { clipped, quoted } from "./texts.js";

const LARGEST = 46;
const LABELLED = 11;
const NUMBERED = 38;
const EDGE = 3; // room for the outline of the last row and column

/** Draw the matrix of the chosen heads. */
export function matrix(trace, store) {
  const picture = element("canvas", { class: "cells" });
  const marks = element("canvas", { class: "marks" });
  const frame = element("div", { class: "matrix", tabindex: 0, role: "img" }, picture, marks);
  const readout = element("output", { class: "readout", "aria-live": "polite" });
  const note = element("p", { class: "note" });
  const view = { trace, store, picture, marks, frame, readout, note, cell: null, plan: null, width: ruled(frame) };
  const redraw = (state) => state.width > 0 && state.picture === "matrix" && draw(view, state);
  store.watch(["heads", "unit", "width", "palette", "picture"], redraw);
  store.watch(["pointed", "pinned", "met", "step"], (state) => view.plan !== null && state.picture === "matrix" && mark(view, state));
  frame.addEventListener("pointermove", (event) => enter(view, cellAt(view, event)));
  frame.addEventListener("pointerdown", (event) => enter(view, cellAt(view, event)));
  frame.addEventListener("pointerleave", () => enter(view, null));
  frame.addEventListener("blur", () => enter(view, null));
  frame.addEventListener("keydown", (event) => walk(view, event));
  return element("div", { class: "picture" }, legend(), frame, readout, note, numbersTable(trace, store));
}

function legend() {
  return element(
    "p",
    { class: "legend" },
    element("span", { class: "role query" }, "rows look"),
    element("span", { class: "role key" }, "at columns"),
    element("span", { class: "scale" }, element("span", {}, "0"), element("span", { class: "ramp" }), element("span", {}, "1")),
  );
}

function draw(view, state) {
  const { trace, picture, marks, frame, note } = view;
  const { weights, rowPassage, columnPassage } = gazeOf(trace, state);
  const rows = trace.units(rowPassage, state.unit);
  const columns = trace.units(columnPassage, state.unit);
  const plan = planned(rows, columns, view.width(state));
  Object.assign(view, { plan, rows, columns, weights, rowPassage, columnPassage });
  for (const canvas of [picture, marks]) size(canvas, plan);
  const brush = picture.getContext("2d");
  paintCells(brush, weights, plan, state.palette.weight);
  const ink = getComputedStyle(frame).color;
  if (plan.labelled) paintLabels(brush, plan, rows, columns, ink);
  frame.style.setProperty("height", `${plan.height}px`);
  frame.setAttribute("aria-label", `Attention matrix, ${rows.length} rows by ${columns.length} columns. Arrows walk from cell to cell.`);
  note.textContent = plan.labelled ? "" : `${rows.length} × ${columns.length} cells: names appear where you point.`;
  mark(view, state);
}

function planned(rows, columns, given) {
  const width = Math.max(100, given); // a window may have no width yet
  const ratio = window.devicePixelRatio || 1;
  const font = fontOf(12);
  const widest = (units) => Math.ceil(Math.max(...units.map((unit) => textWidth(clipped(unit.text, 12), font)), 10)) + 8;
  const [left, top] = [Math.min(widest(rows), width * 0.3), widest(columns)];
  const room = Math.min((width - left - EDGE) / columns.length, Math.max(620 / rows.length, 1), LARGEST);
  const labelled = room >= LABELLED;
  const [x, y] = labelled ? [left, top] : [0, 0];
  const bare = Math.min((width - EDGE) / columns.length, Math.max(620 / rows.length, 1), LARGEST);
  const cell = Math.max(1, Math.floor((labelled ? room : bare) * ratio)) / ratio;
  return { x, y, cell, ratio, labelled, width: x + cell * columns.length + EDGE, height: y + cell * rows.length + EDGE };
}

function size(canvas, { width, height, ratio }) {
  canvas.width = Math.ceil(width * ratio);
  canvas.height = Math.ceil(height * ratio);
  canvas.style.setProperty("width", `${canvas.width / ratio}px`);
  canvas.style.setProperty("height", `${canvas.height / ratio}px`);
}

function paintCells(brush, { rows, columns, data }, { x, y, cell, ratio }, table) {
  const image = new ImageData(columns, rows);
  data.forEach((weight, at) => image.data.set(colourOf(table, weight), 4 * at));
  for (let at = 3; at < image.data.length; at += 4) image.data[at] = 255;
  const small = new OffscreenCanvas(columns, rows);
  small.getContext("2d").putImageData(image, 0, 0);
  brush.imageSmoothingEnabled = false;
  const [left, top, step] = [Math.round(x * ratio), Math.round(y * ratio), Math.round(cell * ratio)];
  brush.canvas.dataset.plan = `${left} ${top} ${step}`; // where the cells are, in pixels, for whoever reads them back
  brush.drawImage(small, left, top, columns * step, rows * step);
  if (cell < NUMBERED) return;
  brush.font = fontOf(11 * ratio);
  brush.textAlign = "center";
  brush.textBaseline = "middle";
  data.forEach((weight, at) => {
    if (weight < 0.005) return; // a page of 0.00 would hide the others
    brush.fillStyle = inkOn(colourOf(table, weight));
    brush.fillText(weight.toFixed(2), left + ((at % columns) + 0.5) * step, top + (Math.floor(at / columns) + 0.5) * step);
  });
}

function paintLabels(brush, plan, rows, columns, ink) {
  const { x, y, cell, ratio } = plan;
  brush.fillStyle = ink;
  brush.font = fontOf(Math.min(12, cell) * ratio);
  brush.textBaseline = "middle";
  brush.textAlign = "right";
  rows.forEach((unit, r) => brush.fillText(clipped(unit.text, 12), (x - 5) * ratio, (y + (r + 0.5) * cell) * ratio, (x - 6) * ratio));
  brush.textAlign = "left";
  columns.forEach((unit, c) => {
    brush.save();
    brush.translate((x + (c + 0.5) * cell) * ratio, (y - 5) * ratio);
    brush.rotate(-Math.PI / 2);
    brush.fillText(clipped(unit.text, 12), 0, 0);
    brush.restore();
  });
}

/** Outline the lit row or column and the cell that is pointed at; say its number. */
function mark(view, state) {
  const { trace, marks, plan, weights, cell, readout, frame } = view;
  const { x, y, ratio } = plan;
  const { row, column } = gazeOf(trace, state);
  const brush = marks.getContext("2d");
  const style = getComputedStyle(frame);
  brush.setTransform(ratio, 0, 0, ratio, 0, 0);
  brush.clearRect(0, 0, plan.width, plan.height);
  brush.lineWidth = 2;
  const outline = (colour, left, top, wide, high) => {
    brush.strokeStyle = style.getPropertyValue(colour);
    brush.strokeRect(left - 1, top - 1, wide + 2, high + 2); // around it: what is outlined stays visible
  };
  const [wide, high] = [weights.columns * plan.cell, weights.rows * plan.cell];
  if (row !== null) outline("--query", x, y + row * plan.cell, wide, plan.cell);
  if (column !== null) outline("--key", x + column * plan.cell, y, plan.cell, high);
  if (cell !== null) {
    outline("--key", x + cell.column * plan.cell, y, plan.cell, high);
    outline("--query", x, y + cell.row * plan.cell, wide, plan.cell);
  }
  fill(readout, ...said(view, cell ?? brightest(weights, row)));
}

function brightest({ data, columns }, row) {
  if (row === null) return null;
  let best = 0;
  for (let c = 1; c < columns; c++) if (data[row * columns + c] > data[row * columns + best]) best = c;
  return { row, column: best, most: true };
}

function said({ weights, rows, columns, store }, cell) {
  if (cell === null) return ["Point at a cell, or walk with the arrows."];
  const weight = weights.data[cell.row * weights.columns + cell.column];
  const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
  swatch.style.setProperty("background-color", css(colourOf(store.state.palette.weight, weight)));
  return [
    swatch,
    element("b", { class: "query" }, quoted(rows[cell.row].text)),
    cell.most ? " looks most at " : " looks at ",
    element("b", { class: "key" }, quoted(columns[cell.column].text)),
    ": ",
    element("b", { class: "number" }, short(weight)),
  ];
}

function enter(view, cell) {
  const { trace, store, rowPassage, columnPassage, rows, columns } = view;
  if (cell !== null && view.cell !== null && cell.row === view.cell.row && cell.column === view.cell.column) return;
  view.cell = cell;
  if (cell === null) return store.set({ pointed: null, met: null });
  const pointed = trace.same({ passage: rowPassage, place: rows[cell.row].tokens[0] });
  return store.set({ pointed, met: trace.same({ passage: columnPassage, place: columns[cell.column].tokens[0] }) });
}

function cellAt({ picture, plan, weights }, event) {
  const box = picture.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - plan.x) / plan.cell);
  const row = Math.floor((event.clientY - box.top - plan.y) / plan.cell);
  return row >= 0 && column >= 0 && row < weights.rows && column < weights.columns ? { row, column } : null;
}

function walk(view, event) {
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  if (!(event.key in moves)) return;
  event.preventDefault();
  event.stopPropagation();
  const { row, column } = view.cell ?? { row: 0, column: -moves[event.key][1] };
  const within = (place, count) => Math.max(0, Math.min(count - 1, place));
  const [down, right] = view.cell === null ? [0, moves[event.key][1]] : moves[event.key];
  enter(view, { row: within(row + down, view.weights.rows), column: within(column + right, view.weights.columns) });
}
