// A matrix of signed numbers on a canvas, one pixel each, stretched by CSS; cells respond to pointer and arrow keys.

import { element, fill } from "/drawing/dom.js";
import { packColors } from "/drawing/color_scale.js";

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/** Create a matrix: {node, draw, mark}. `point(cell)` is called on hover (null: none), `pick(cell)` on click. */
export function grid({ label, across, down: side, point, pick }) {
  const canvas = element("canvas", { class: "cells" });
  const marks = element("div", { class: "grid-marks", "aria-hidden": "true" });
  const frame = element("div", { class: "grid-frame", tabindex: 0, role: "img" }, canvas, marks);
  const [bottom, left] = [element("div", { class: "ticks across", "aria-hidden": "true" }), element("div", { class: "ticks down", "aria-hidden": "true" })];
  let [rows, columns, cell] = [1, 1, null];

  const at = (event) => {
    const { left: x, top: y, width, height } = frame.getBoundingClientRect();
    const within = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
    return { row: within((event.clientY - y) / height, rows), column: within((event.clientX - x) / width, columns) };
  };
  const enter = (next) => {
    cell = next;
    point(next);
  };
  frame.addEventListener("pointermove", (event) => enter(at(event)));
  frame.addEventListener("pointerleave", () => enter(null));
  frame.addEventListener("click", (event) => pick(at(event)));
  frame.addEventListener("keydown", (event) => {
    if (["Enter", " "].includes(event.key) && cell !== null) pick(cell);
    else if (event.key === "Escape") enter(null);
    else if (event.key in MOVES) {
      const [by, along] = cell === null ? [0, 0] : MOVES[event.key];
      const { row, column } = cell ?? { row: 0, column: 0 };
      enter({ row: Math.max(0, Math.min(rows - 1, row + by)), column: Math.max(0, Math.min(columns - 1, column + along)) });
    } else return;
    event.preventDefault();
  });

  /** Draw the values `number(row, column)`, which range from −reach to reach. */
  const draw = ({ rows: down, columns: along, number, reach, palette }) => {
    [rows, columns] = [canvas.height, canvas.width] = [down, along];
    const image = new ImageData(columns, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const packed = packColors(palette.signed);
    for (let row = 0, at = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++, at++) pixels[at] = packed[Math.max(0, Math.min(255, Math.round((number(row, column) / reach + 1) * 127.5)))];
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
    frame.setAttribute("aria-label", `${label}, ${rows} by ${columns}. Use the arrow keys to move between cells, Enter to select.`);
    fill(bottom, ...ticks(columns, "left"), element("b", {}, across), element("b", { class: "below" }, side));
    fill(left, ...ticks(rows, "top"));
  };
  /** Mark rows and columns: [{row} or {column}, …], each with a class. */
  const mark = (some) => fill(marks, ...some.map(({ row, column, kind }) => element("i", { class: kind, style: row === undefined
    ? { left: share(column, columns), width: share(1, columns) }
    : { top: share(row, rows), height: share(1, rows), left: 0, right: 0 } })));
  return { node: element("div", { class: "grid-view" }, left, frame, bottom), draw, mark };
}

/** Round numbers along an axis. */
export function steps(count) {
  const step = [1, 2, 4, 8, 16, 32, 64, 128].find((size) => count / size <= 9) ?? 256;
  return Array.from({ length: Math.ceil(count / step) }, (_, k) => k * step);
}

function ticks(count, edge) {
  return steps(count).map((number) => element("span", { style: { [edge]: share(number + 0.5, count) } }, String(number)));
}

function share(part, whole) {
  return `${(100 * part) / whole}%`;
}
