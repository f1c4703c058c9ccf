// The section of one stage: an explanation, the formula, the calculation with the actual numbers, and its panels. A panel is a
// matrix or vector as colored cells: the selected row and column outlined, labels, and the value of one cell.

import { element, fill, svg } from "/page/dom.js";
import { saveButton } from "/page/export.js";
import { clip, exact, fontOf, short, textWidth, visible } from "/page/text.js";
import { colorOf, packColors, textColorOn } from "/page/theme.js";

const FONT = 11;
const MAX_CELL_HEIGHT = 24;
const SQUARE = 360;
const BETWEEN = 54;
const MAX_CELL_WIDTH = 40;
const MIN_NUMBERED_CELL = 30;
const GAP = 3;
const MAX_TABLE_CELLS = 400;

/** Create the section of a stage; `draw(context, palette, room, handlers)` fills it. */
export function stageSection(stage, number, onToggle) {
  const picture = element("div", { class: "panels" });
  const lines = element("div", { class: "lines" });
  const more = element("p", { class: "explanation" });
  const tables = element("div");
  const sum = element("details", { class: "sum" }, element("summary", {}, "Calculation"), lines,
    element("p", { class: "code note" }, "Code: ", ...stage.code.flatMap(([name, file], at) => [at === 0 ? "" : ", ", element("code", {}, name), ` (${file})`])));
  const numbers = element("details", { class: "numbers" }, element("summary", {}, "Values as a table"), tables);
  const problem = element("p", { class: "problem", role: "alert" });
  const drawn = { panels: [], specs: [], data: () => ({ stage: stage.id, lines: [...lines.children].map(({ textContent }) => textContent), panels: drawn.specs.map(plain) }) };
  const title = element("h2", { id: `stage-${number}` }, element("span", { class: "number" }, `${number + 1} `), stage.title);
  const left = element("div", { class: "left" }, picture, numbers);
  const node = element("section", { class: "stage", "data-stage": stage.id, "aria-labelledby": `stage-${number}` }, title, element("div", { class: "two" },
    left,
    element("div", { class: "stage-text" }, element("p", {}, stage.explanation), more, element("p", { class: "formula" }, stage.formula), sum, problem, saveButton(`walk-${stage.point}`, picture, drawn.data))));
  const kept = new WeakMap();
  const tabled = () => numbers.open && fill(tables, ...drawn.panels.filter((one) => one.table).map((one) => one.table()));
  numbers.addEventListener("toggle", tabled);
  sum.addEventListener("toggle", () => onToggle(sum.open));

  const draw = (c, palette, room, handlers) => {
    const given = stage.show(c);
    const full = given.filter((part) => part.matrix?.rows > 1 && part.share === undefined).length;
    const high = [260, 260, 215, 160][full] ?? 130; // so that a stage fits on a screen
    const parts = given.map((part, at) => {
      const alone = given[at - 1]?.matrix !== undefined && given[at - 1].share === undefined; // it fills the line
      if (typeof part === "string") return element("span", { class: alone ? "operator alone" : "operator", "aria-hidden": "true" }, alone && part === "→" ? "↓" : part);
      return part instanceof Element ? part : panel(part, room, high, palette, { pick: (row, column) => handlers.pick(part, row, column), point: handlers.point, kept });
    });
    const focused = drawn.panels.findIndex((one) => one.contains(document.activeElement));
    drawn.specs = given.filter((part) => part.matrix !== undefined);
    drawn.panels = parts;
    more.textContent = stage.more?.(c) ?? "";
    fill(picture, ...parts);
    if (focused >= 0) parts[focused]?.querySelector(".cells, [aria-pressed=true]")?.focus({ preventScroll: true });
    numbers.hidden = drawn.specs.length === 0;
    node.classList.add("drawn");
    tabled();
  };
  return {
    node, draw,
    fail: (message) => (problem.textContent = message),
    sumLines: (c) => fill(lines, ...stage.sum(c).map((line) => element("p", {}, line))),
    point: (sequence, index) => drawn.panels.forEach((one) => one.point?.(sequence, index)),
    get open() { return sum.open; },
    set open(open) { sum.open = open; },
  };
}

/** A panel for the JSON file. */
function plain({ title, matrix: { rows, columns, data }, rowNames = null, columnNames = null, row = null, column = null }) {
  const numbers = Array.from({ length: rows }, (_, r) => Array.from(data.subarray(r * columns, (r + 1) * columns), exact));
  return { title, rows: rowNames, columns: columnNames, chosen: [row, column], numbers };
}

/**
 * Draw a panel {title, idea, matrix, scale, rowNames, columnNames, row, column, sequences, share, lit} into a width and a height. `idea` is its
 * color, `scale` "weight" or "signed"; `share` is the number of panels side by side, `lit` the color of the selected row. `pick(row, column)` is called on click, `point`
 * on hover; `kept` caches canvases. The node has `point(sequence, index)`, which marks a row that is hovered elsewhere.
 */
function panel(given, room, high, palette, { pick, point, kept }) {
  const { title, idea, matrix: { rows, columns, data }, scale = "signed", rowNames = null, columnNames = null, row = null, column = null, share = 1, lit = "query", sequences = [null] } = given;
  const wide = room < 520 ? room : Math.floor((room - BETWEEN * (share - 1)) / share);
  const [left, top] = [rowNames, columnNames].map((names) => (names === null ? 2 : roomFor(names)));
  const square = columnNames !== null && rows > 1;
  const cellWide = Math.min((wide - left - GAP) / columns, square ? Math.max(SQUARE / rows, 2) : Infinity, columnNames === null ? MAX_CELL_HEIGHT : MAX_CELL_WIDTH);
  const cellHigh = square ? cellWide : Math.min(MAX_CELL_HEIGHT, high / rows);
  const [width, height] = [cellWide * columns, cellHigh * rows];

  const most = scale === "weight" ? 1 : (kept.get(data)?.most ?? largest(data));
  if (kept.get(data)?.palette !== palette) kept.set(data, { palette, most, canvas: paintCanvas(rows, columns, data, scale, most, palette) });
  const { canvas } = kept.get(data);
  const color = (value) => colorOf(palette[scale], scale === "weight" ? value : 0.5 + value / most / 2);
  for (const [name, value] of [["left", left], ["top", top], ["width", width], ["height", height]]) canvas.style.setProperty(name, `${value}px`);
  const marks = svg("svg", { width: left + width + GAP, height: top + height + GAP });
  const outline = (kind, x, y, w, h) => svg("rect", { class: `lit ${kind}`, x: left + x - 1, y: top + y - 1, width: w + 2, height: h + 2 });
  if (rowNames !== null) marks.append(...names(rowNames, row, cellHigh, (at) => ({ x: left - 5, y: top + (at + 0.5) * cellHigh, "text-anchor": "end" })));
  if (columnNames !== null) marks.append(...names(columnNames, column, cellWide, (at) => ({ transform: `translate(${left + (at + 0.5) * cellWide} ${top - 5}) rotate(-90)` })));
  if (row !== null && cellWide >= MIN_NUMBERED_CELL) marks.append(...numbers(data.subarray(row * columns, (row + 1) * columns)));
  if (row !== null && rows > 1) marks.append(outline(lit, 0, row * cellHigh, width, cellHigh));
  if (column !== null) marks.append(outline(columnNames === null ? "one" : "key", column * cellWide, row === null ? 0 : row * cellHigh, cellWide, row === null ? height : cellHigh));
  const follow = outline("hovered", 0, 0, width, cellHigh);

  function numbers(values) {
    return Array.from(values, (value, at) => svg("text", {
      class: "in-cell", "font-size": cellWide < 36 ? 9 : 10, x: left + (at + 0.5) * cellWide, y: top + (row + 0.5) * cellHigh, fill: Number.isFinite(value) ? textColorOn(color(value)) : null,
    }, scale === "weight" ? value.toFixed(2) : short(value)));
  }
  const readout = element("p", { class: "note reading" });
  const describe = (r, c) => {
    const who = rowNames === null ? "" : `“\u2068${visible(rowNames[r])}\u2069”, `;
    const what = columnNames === null ? `dimension ${c}` : `“\u2068${visible(columnNames[c])}\u2069”`;
    return `${who}${what}: ${short(data[r * columns + c])}`;
  };
  const rest = () => (readout.textContent = row !== null && column !== null ? describe(row, column) : "");
  rest();
  const cellAt = ({ clientX, clientY }) => {
    const box = marks.getBoundingClientRect();
    const [c, r] = [Math.floor((clientX - box.left - left) / cellWide), Math.floor((clientY - box.top - top) / cellHigh)];
    return r < 0 || r >= rows || c < 0 || c >= columns ? null : [r, c];
  };
  marks.addEventListener("pointermove", (event) => {
    const cell = cellAt(event);
    if (cell === null) return leave();
    readout.textContent = describe(...cell);
    return rowNames !== null && point(sequences[0], cell[0]);
  });
  const leave = () => {
    rest();
    point(null, null);
  };
  marks.addEventListener("pointerleave", leave);
  marks.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell !== null) pick(...cell);
  });
  const walk = (event) => {
    const [down, right] = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key] ?? [0, 0];
    if ((down === 0 && right === 0) || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    const within = (at, count) => Math.max(0, Math.min(count - 1, at));
    pick(within((row ?? 0) + down, rows), within((column ?? 0) + right, columns));
  };
  const shape = rows === 1 ? `${columns}` : `${rows} × ${columns}`;
  const node = element("figure", { class: `panel ${idea}` },
    element("figcaption", {}, dot(), element("b", {}, title), element("span", { class: "number" }, shape), ramp(scale, most)),
    element("div", { class: "cells", role: "img", tabindex: 0, "aria-label": `${title}, ${shape}. ${readout.textContent}`, on: { keydown: walk } }, canvas, marks),
    readout,
  );
  node.style.setProperty("width", `${Math.max(left + width + GAP, Math.min(wide, 172))}px`);
  node.point = (sequence, index) => {
    const shown = sequence !== null && sequences[0] === sequence && rows > 1 && index < rows;
    if (!shown) return follow.remove();
    follow.setAttribute("y", top + index * cellHigh - 1);
    return marks.append(follow);
  };
  node.table = () => table(given, shape);
  return node;
}

const rooms = new WeakMap();

/** The width that labels need. */
function roomFor(names) {
  const font = fontOf(FONT, 700);
  if (!rooms.has(names)) rooms.set(names, Math.min(84, Math.ceil(Math.max(...names.map((name) => textWidth(clip(name, 10), font)), 8)) + 7));
  return rooms.get(names);
}

function paintCanvas(rows, columns, data, scale, most, palette) {
  const canvas = element("canvas", { width: columns, height: rows });
  const image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const table = packColors(palette[scale]);
  for (let at = 0; at < data.length; at++) {
    if (data[at] !== -Infinity) pixels[at] = table[Math.round(255 * (scale === "weight" ? data[at] : 0.5 + data[at] / most / 2))]; // −∞ stays empty
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

function largest(data) {
  let most = 1e-9;
  for (const value of data) if (value !== -Infinity) most = Math.max(most, Math.abs(value));
  return most;
}

/** All labels if there is room, else only the selected one. */
function names(all, lit, pitch, placed) {
  const shown = pitch >= FONT ? all.map((_, at) => at) : lit === null ? [] : [lit];
  return shown.map((at) => svg("text", { class: at === lit ? "lit-name" : "cell-name", ...placed(at) }, clip(all[at], 10)));
}

/** The color of a panel's concept. */
function dot() {
  return element("i", { class: "dot", "aria-hidden": "true" });
}

function ramp(scale, most) {
  const end = (value) => element("span", { class: "number" }, short(value));
  const kind = scale === "weight" ? "ramp" : "ramp signed";
  return element("span", { class: "scale", "aria-hidden": "true" }, end(scale === "weight" ? 0 : -most), element("span", { class: kind }), end(most));
}

/** The numbers of a panel: all if there are few, else the selected row. */
function table({ title, matrix: { rows, columns, data }, rowNames, columnNames, row }, shape) {
  const shown = data.length <= MAX_TABLE_CELLS || row === null ? Array.from({ length: Math.min(rows, MAX_TABLE_CELLS) }, (_, at) => at) : [row];
  const head = (text, scope) => element("th", { scope, dir: "auto" }, visible(text));
  const body = shown.map((r) => element("tr", {}, head(rowNames?.[r] ?? String(r), "row"),
    ...Array.from(data.subarray(r * columns, (r + 1) * columns), (value) => element("td", {}, short(value)))));
  const top = element("tr", {}, element("td"), ...Array.from({ length: columns }, (_, c) => head(columnNames?.[c] ?? String(c), "col")));
  return element("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": `${title} as a table` },
    element("table", {}, element("caption", {}, `${title}, ${shape}`), element("thead", {}, top), element("tbody", {}, ...body)));
}

/** Candidates with a number each, as bars. */
export function bars(title, idea, rows, chosen) {
  const most = Math.max(...rows.map(({ value }) => Math.abs(value)), 1e-9);
  const scale = idea === "probability" ? 1 : most;
  const items = rows.map(({ text, value }, at) => {
    const bar = element("span", { class: `bar ${idea}`, style: { "--share": Math.max(0, value / scale) } });
    return element("li", { class: at === chosen ? "candidate chosen" : "candidate" }, element("span", { class: "name", dir: "auto" }, visible(text)), element("span", { class: "track" }, bar), element("span", { class: "number" }, short(value)));
  });
  return element("figure", { class: `panel ${idea}` }, element("figcaption", {}, dot(), element("b", {}, title)), element("ol", { class: "candidates" }, ...items));
}

/** Tokens as selectable chips, each with a second line. */
export function chips(tokens, below, lit, pick) {
  const all = tokens.map((text, at) => element("button", { type: "button", class: at === lit ? "token is-query" : "token", "aria-pressed": String(at === lit), on: { click: () => pick(at) } },
    element("span", {}, clip(text)), below === null ? null : element("small", { class: "number" }, below[at])));
  const node = element("div", { class: "chips" });
  fill(node, ...all);
  return node;
}
