// Attention as lines from queries to keys; the thicker the line, the larger the weight.

import { element, fill, role, svg } from "./dom.js";
import { selectionOf, selectedWeights } from "./selection.js";
import { groupDigits, percent, short } from "./numbers.js";
import { curve, drawRow, layout } from "./token_rows.js";
import { quote } from "./token_text.js";
import { view } from "./view.js";

const MAX_LINES = 300;
const MIN_WEIGHT = 0.01;
const N_BINS = 10000;

/** Return the stroke width for a weight: proportional, but never invisible. */
export function thickness(weight) {
  return 0.6 + 7 * weight;
}

/** Draw the lines of the selected heads. */
export const lines = view("lines", (trace, store) => {
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
  return { node: element("div", { class: "picture" }, gauge, roles(), scroller, note), data: () => selectedWeights(trace, store.state) };
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
