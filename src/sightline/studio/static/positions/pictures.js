// The pictures of Positions: a matrix of signed numbers, and curves over positions.

import { element, fill, svg } from "/page/dom.js";
import { short } from "/page/text.js";
import { packColors } from "/page/theme.js";

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const [LEFT, RIGHT, TOP, BOTTOM, HEIGHT] = [48, 8, 8, 22, 290];

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
function steps(count) {
  const step = [1, 2, 4, 8, 16, 32, 64, 128].find((size) => count / size <= 9) ?? 256;
  return Array.from({ length: Math.ceil(count / step) }, (_, k) => k * step);
}

function ticks(count, edge) {
  return steps(count).map((number) => element("span", { style: { [edge]: share(number + 0.5, count) } }, String(number)));
}

function share(part, whole) {
  return `${(100 * part) / whole}%`;
}

/** Create a chart: {node, draw}. `point(position)` is called with the hovered position. */
export function chart({ label, point }) {
  const picture = svg("svg", { class: "chart", height: HEIGHT, role: "img", "aria-label": label });
  const node = element("div", { class: "chart-view" }, picture);
  let [width, shown] = [0, null];
  const redraw = () => width > 0 && shown !== null && fill(picture, ...drawn(shown, width));
  picture.addEventListener("pointermove", (event) => {
    const along = (event.clientX - picture.getBoundingClientRect().left - LEFT) / (width - LEFT - RIGHT);
    point(Math.max(0, Math.min(shown.count - 1, Math.round(along * (shown.count - 1)))));
  });
  picture.addEventListener("pointerleave", () => point(null));
  /** Draw curves [{data, kind}] of `count` values from −reach to reach, and the hovered position. */
  const draw = (what) => {
    shown = what;
    redraw();
  };
  const measured = (room) => {
    width = room;
    picture.setAttribute("width", room);
    redraw();
  };
  return { node, draw, measured };
}

function drawn({ curves, count, reach, at }, width) {
  const x = (index) => round(LEFT + (index / Math.max(1, count - 1)) * (width - LEFT - RIGHT));
  const y = (number) => round(TOP + ((reach - number) / (2 * reach)) * (HEIGHT - TOP - BOTTOM));
  const line = (d, kind) => svg("path", { d, class: kind });
  const heights = [reach, 0, -reach].flatMap((number) => [
    line(`M${LEFT} ${y(number)}H${width - RIGHT}`, "rule"),
    svg("text", { x: LEFT - 6, y: y(number), class: "tick side" }, short(number)),
  ]);
  const ticks = steps(count).map((number) => svg("text", { x: x(number), y: HEIGHT - 6, class: "tick" }, String(number)));
  const paths = curves.map(({ data, kind }) => line(Array.from(data, (number, index) => `${index === 0 ? "M" : "L"}${x(index)} ${y(number)}`).join(""), `curve ${kind}`));
  return [...heights, ...ticks, ...paths, at === null ? null : line(`M${x(at)} ${TOP}V${HEIGHT - BOTTOM}`, "here")];
}

function round(number) {
  return Math.round(number * 100) / 100;
}
