// Lines between two rows of tokens: attention, from queries to keys, and the links of a word alignment. The thicker the line,
// the larger the weight. The rows are horizontal if they fit the width, else vertical.

import { element, fill, role, svg } from "./dom.js";
import { nameHeads, selectedWeights, selectionOf } from "./store.js";
import { clip, fontOf, groupDigits, isRightToLeft, percent, quote, short, textWidth } from "./text.js";
import { view } from "./view.js";

const MAX_LINES = 300;
const MIN_WEIGHT = 0.01;
const N_BINS = 10000;
const GAP = 6;
const DEPTH = 190;
const MIN_WIDTH = 200;

/** Draw the lines of the selected heads. */
export const lines = view("lines", (trace, store) => {
  if (trace.attentions.length === 0) return null;
  const note = element("p", { class: "note" });
  const scroller = element("div", { class: "scroller lines" });
  const gauge = element("div");
  let [drawn, width] = [null, 0];
  const redraw = (state) => {
    if (width === 0) return;
    drawn = draw(trace, store, state, scroller, note, drawn, width);
    emphasize(trace, store, drawn, scroller);
  };
  store.watch(["heads", "unit"], redraw);
  store.watch(["hovered", "pinned", "hoveredKey", "step"], () => drawn !== null && width > 0 && emphasize(trace, store, drawn, scroller));
  scroller.addEventListener("pointerover", ({ target }) => target.localName === "path" && showWeight(target, drawn.weights, drawn.units));
  store.measure(gauge, (measured) => {
    width = measured;
    redraw(store.state);
  });
  return { node: element("div", { class: "picture" }, gauge, roles(), scroller, note), data: () => selectedWeights(trace, store.state), name: () => nameHeads(trace, store.state, "lines") };
});

function roles() {
  return element(
    "p",
    { class: "roles" },
    role("key", "keys (attended to)"),
    role("query", "queries (attending)"),
  );
}

function draw(trace, store, state, scroller, note, before, width) {
  const { weights, rowSequence, columnSequence } = selectionOf(trace, state);
  const key = [rowSequence, columnSequence, state.unit, width].join(" ");
  const drawn = before?.key === key ? before : stage(trace, store, state.unit, rowSequence, columnSequence, scroller, width);
  if (drawn.weights === weights) return drawn;
  const kept = largestWeights(weights);
  fill(drawn.allLines, ...kept.map((at) => line(weights, drawn.boxes, at)));
  note.textContent = describe(weights, kept);
  return { ...drawn, key, weights };
}

/** Draw the two rows, with empty groups for the lines between them. */
function stage(trace, store, unit, rowSequence, columnSequence, scroller, room) {
  const units = { rows: trace.units(rowSequence, unit), columns: trace.units(columnSequence, unit) };
  const boxes = layout(
    { units: units.columns, text: trace[columnSequence].text },
    { units: units.rows, text: trace[rowSequence].text },
    room - 2,
  );
  const columns = drawRow(boxes.top, units.columns, columnSequence);
  const rows = drawRow(boxes.bottom, units.rows, rowSequence);
  const [allLines, selectedLines] = [svg("g", { class: "all-lines" }), svg("g", { class: "selected-lines" })];
  const { width, height } = boxes;
  const label = `Attention lines from ${rows.length} queries to ${columns.length} keys; the table under the matrix has the numbers.`;
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, style: { font: boxes.font } });
  picture.append(allLines, selectedLines, ...columns, ...rows);
  follow(trace, store, unit, picture);
  fill(scroller, picture);
  return { boxes, allLines, selectedLines, columns, rows, units };
}

/** Track the hovered token and pin the clicked one; one listener for all, as there may be hundreds. */
function follow(trace, store, unit, picture) {
  const tokenAt = ({ target }) => {
    const node = target.closest(".unit");
    return node === null ? null : trace.canonical({ sequence: node.dataset.row, index: trace.units(node.dataset.row, unit)[node.dataset.unit].tokens[0] });
  };
  let under = null;
  picture.addEventListener("pointerover", (event) => {
    const node = event.target.closest(".unit");
    if (node === under) return;
    under = node;
    store.set({ hovered: tokenAt(event), hoveredKey: null });
  });
  picture.addEventListener("pointerleave", () => {
    if (under !== null) store.set({ hovered: null });
    under = null;
  });
  picture.addEventListener("click", (event) => tokenAt(event) !== null && store.set({ pinned: tokenAt(event) }));
}

/** Return the indices of the weights to draw: all that are visible, but no more than a browser draws quickly. */
function largestWeights({ data }) {
  const counts = new Uint32Array(N_BINS + 1);
  for (let at = 0; at < data.length; at++) counts[Math.floor(data[at] * N_BINS)]++;
  let bin = N_BINS + 1;
  for (let sum = 0; bin > MIN_WEIGHT * N_BINS && sum + counts[bin - 1] <= MAX_LINES; bin--) sum += counts[bin - 1];
  const kept = [];
  for (let at = 0; at < data.length; at++) if (Math.floor(data[at] * N_BINS) >= bin) kept.push(at);
  return kept;
}

function describe({ data }, kept) {
  let [all, shown, seen] = [0, 0, 0];
  for (const at of kept) shown += data[at];
  for (let at = 0; at < data.length; at++) {
    all += data[at];
    if (data[at] >= MIN_WEIGHT) seen++;
  }
  if (kept.length >= seen) return `Weights below ${MIN_WEIGHT} are hidden; hover over a token to show all of its lines.`;
  return `The ${kept.length} largest of ${groupDigits(data.length)} weights are drawn: ${percent(shown / all)} of the total. Hover over a token to show all of its lines.`;
}

function line({ data, columns }, { top, bottom, flat }, at) {
  const [row, column] = [Math.floor(at / columns), at % columns];
  const weight = data[at];
  return svg("path", {
    d: curve(bottom[row], top[column], flat),
    "stroke-width": thickness(weight).toFixed(3),
    "stroke-opacity": (0.12 + 0.88 * weight).toFixed(3),
    "data-row": row,
    "data-column": column,
  });
}

/** Return the stroke width for a weight: proportional, but never invisible. */
function thickness(weight) {
  return 0.6 + 7 * weight;
}

function emphasize(trace, store, drawn, scroller) {
  const { state } = store;
  const { weights, boxes, allLines, selectedLines, rows, columns } = drawn;
  const { row, column } = selectionOf(trace, state);
  const lit = [];
  if (row !== null) for (let c = 0; c < weights.columns; c++) lit.push(row * weights.columns + c);
  else if (column !== null) for (let r = 0; r < weights.rows; r++) lit.push(r * weights.columns + column);
  const strong = lit.filter((at) => weights.data[at] >= 0.0005);
  allLines.classList.toggle("faded", strong.length > 0);
  fill(selectedLines, ...strong.map((at) => line(weights, boxes, at)));
  rows.forEach((node, number) => node.classList.toggle("is-query", number === row));
  const best = strongest(weights, row);
  columns.forEach((node, number) => node.classList.toggle("is-key", number === column || number === best));
  if (row !== null && !boxes.flat && state.hovered === null) store.beforeNextFrame(scroller, () => keepInView(scroller, boxes.bottom[row]));
}

/** Show the weight of a line on hover. */
function showWeight(path, { data, columns }, units) {
  const [row, column] = [Number(path.dataset.row), Number(path.dataset.column)];
  const text = `${quote(units.rows[row].text)} attends to ${quote(units.columns[column].text)}: ${short(data[row * columns + column])}`;
  fill(path, svg("title", {}, text));
}

function strongest({ data, columns }, row) {
  if (row === null) return null;
  let best = 0;
  for (let c = 1; c < columns; c++) if (data[row * columns + c] > data[row * columns + best]) best = c;
  return best;
}

function keepInView(scroller, { y, height }) {
  if (scroller.scrollHeight <= scroller.clientHeight) return;
  if (y < scroller.scrollTop || y + height > scroller.scrollTop + scroller.clientHeight) {
    scroller.scrollTop = y - scroller.clientHeight / 2;
  }
}

/** Draw the links of a trace that has them. */
export const alignment = view("alignment", (trace, store) => {
  if (trace.alignment === null || trace.alignment.links.length === 0) return null;
  const { links, warning, attention } = trace.alignment;
  const letters = { source: [...trace.source.text], target: [...trace.target.text] };
  const words = { source: spans(links, "source", letters), target: spans(links, "target", letters) };
  const scroller = element("div", { class: "scroller lines" });
  const gauge = element("div");
  store.measure(gauge, (width) => width > 0 && fill(scroller, drawLinks(trace, links, words, width - 2)));
  const items = links.map((link) =>
    element("li", {}, `${quote(cut(letters, link, "target"))} attends to ${quote(cut(letters, link, "source"))}: ${short(link.weight)}`));
  const listing = element("details", { class: "numbers" }, element("summary", {}, "Links as a list"), element("ul", {}, ...items));
  const node = element("div", { class: "picture" }, gauge, element("p", { class: "warning", role: "note" }, warning),
    scroller, element("p", { class: "note" }, `From ${attention}, mean of all heads.`), listing);
  const named = links.map((link) => ({ ...link, source: cut(letters, link, "source"), target: cut(letters, link, "target") }));
  return { node, data: () => ({ warning, attention, links: named }) };
});

function drawLinks(trace, links, words, width) {
  const columns = { units: words.source, text: trace.source.text };
  const rows = { units: words.target, text: trace.target.text };
  const boxes = layout(columns, rows, width);
  const paths = links.map((link) => {
    const row = words.target.findIndex((word) => word.start === link.target_start);
    const column = words.source.findIndex((word) => word.start === link.source_start);
    return svg("path", {
      d: curve(boxes.bottom[row], boxes.top[column], boxes.flat),
      "stroke-width": thickness(link.weight).toFixed(3),
      "stroke-opacity": (0.25 + 0.75 * link.weight).toFixed(3),
    }, svg("title", {}, `${quote(words.target[row].text)} attends to ${quote(words.source[column].text)}: ${short(link.weight)}`));
  });
  return svg("svg", { width: boxes.width, height: boxes.height, role: "img", "aria-label": "Links between source and target words; they are listed below.", style: { font: boxes.font } },
    svg("g", { class: "selected-lines" }, ...paths), ...drawRow(boxes.top, words.source, "source"), ...drawRow(boxes.bottom, words.target, "target"));
}

/** The words of a text, split at spaces as in the links. Python counts code points, so texts are arrays of those. */
function spans(links, side, letters) {
  const starts = new Map(links.map((link) => [link[`${side}_start`], link[`${side}_end`]]));
  let start = null;
  [...letters[side], " "].forEach((letter, at) => {
    const blank = /\s/.test(letter);
    if (blank && start !== null && !starts.has(start)) starts.set(start, at);
    start = blank ? null : (start ?? at);
  });
  const ordered = [...starts].sort(([a], [b]) => a - b);
  return ordered.map(([from, end]) => ({ start: from, text: letters[side].slice(from, end).join(""), special: false }));
}

function cut(letters, link, side) {
  return letters[side].slice(link[`${side}_start`], link[`${side}_end`]).join("");
}

/** Return the boxes of the units of two rows within a width: {flat, width, height, top, bottom, font}. */
function layout(columns, rows, room) {
  const width = Math.max(MIN_WIDTH, room); // the window may have no width yet
  const font = fontOf(13);
  const top = sizes(columns.units, font);
  const bottom = sizes(rows.units, font);
  const widest = Math.max(total(top), total(bottom));
  if (widest <= width) {
    const height = DEPTH + 52;
    return { flat: true, width, height, font, top: across(top, columns, width, 2), bottom: across(bottom, rows, width, height - 28) };
  }
  const longest = Math.max(columns.units.length, rows.units.length);
  const pitch = Math.max(12, Math.min(26, Math.floor(660 / longest)));
  const small = fontOf(Math.min(13, pitch - 1));
  const inner = width - 16; // the scroll bar
  const side = Math.min(150, inner * 0.34);
  return {
    flat: false,
    width: inner,
    height: longest * pitch + 4,
    font: small,
    top: down(columns.units, small, pitch, (size) => Math.max(0, side - size), side),
    bottom: down(rows.units, small, pitch, () => inner - side, side),
  };
}

/** Draw the units of a row; the font is inherited. */
function drawRow(boxes, units, row) {
  return units.map((unit, number) => {
    const { x, y, width, height } = boxes[number];
    const text = svg("text", { x: x + width / 2, y: y + height / 2 }, clip(unit.text, 14));
    const box = svg("rect", { x, y, width, height, rx: Math.min(6, height / 4) });
    return svg("g", { class: unit.special ? "unit special" : "unit", "data-unit": number, "data-row": row }, box, text);
  });
}

/** Return the path from a unit of the bottom (or right) row to one of the top (or left). */
function curve(from, to, flat) {
  if (flat) {
    const [x0, y0, x1, y1] = [from.x + from.width / 2, from.y, to.x + to.width / 2, to.y + to.height];
    const middle = (y0 + y1) / 2;
    return `M${one(x0)} ${one(y0)}C${one(x0)} ${one(middle)} ${one(x1)} ${one(middle)} ${one(x1)} ${one(y1)}`;
  }
  const [x0, y0, x1, y1] = [from.x, from.y + from.height / 2, to.x + to.width, to.y + to.height / 2];
  const middle = (x0 + x1) / 2;
  return `M${one(x0)} ${one(y0)}C${one(middle)} ${one(y0)} ${one(middle)} ${one(y1)} ${one(x1)} ${one(y1)}`;
}

function sizes(units, font) {
  return units.map((unit) => Math.max(22, Math.ceil(textWidth(clip(unit.text, 14), font)) + 14));
}

function total(wide) {
  return wide.reduce((sum, width) => sum + width + GAP, -GAP);
}

function across(wide, { text }, width, y) {
  let x = Math.max(0, (width - total(wide)) / 2);
  const boxes = wide.map((size) => {
    const box = { x, y, width: size, height: 26 };
    x += size + GAP;
    return box;
  });
  return isRightToLeft(text) ? boxes.map((box) => ({ ...box, x: width - box.x - box.width })) : boxes;
}

function down(units, font, pitch, xOf, side) {
  return units.map((unit, number) => {
    const width = Math.min(side, Math.ceil(textWidth(clip(unit.text, 14), font)) + 10);
    return { x: xOf(width), y: 2 + number * pitch, width, height: pitch - (pitch > 18 ? 3 : 1) };
  });
}

function one(number) {
  return Math.round(number * 10) / 10;
}
