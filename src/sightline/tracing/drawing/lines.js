// Lines from the tokens that look to those they look at; the thicker, the more weight.

import { element, fill, role, svg } from "./dom.js";
import { gazeOf, numbersOf } from "./gaze.js";
import { counted, percent, short } from "./numbers.js";
import { curve, drawRow, layout } from "./rows.js";
import { quoted } from "./texts.js";
import { view } from "./view.js";

const MOST = 300;
const LEAST = 0.01;
const FINE = 10000;

/** Return how thick a line is for a weight: in proportion, but never invisible. */
export function thickness(weight) {
  return 0.6 + 7 * weight;
}

/** Draw the lines of the chosen heads. */
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
  store.watch(["pointed", "pinned", "met", "step"], () => drawn !== null && width > 0 && emphasize(trace, store, drawn, scroller));
  scroller.addEventListener("pointerover", ({ target }) => target.localName === "path" && name(target, drawn.weights, drawn.units));
  store.measure(gauge, (measured) => {
    width = measured;
    redraw(store.state);
  });
  return { node: element("div", { class: "picture" }, gauge, roles(), scroller, note), data: () => numbersOf(trace, store.state) };
});

function roles() {
  return element(
    "p",
    { class: "roles" },
    role("key", "what is looked at"),
    role("query", "who looks"),
  );
}

function draw(trace, store, state, scroller, note, before, width) {
  const { weights, rowPassage, columnPassage } = gazeOf(trace, state);
  const key = [rowPassage, columnPassage, state.unit, width].join(" ");
  const drawn = before?.key === key ? before : stage(trace, store, state.unit, rowPassage, columnPassage, scroller, width);
  if (drawn.weights === weights) return drawn;
  const kept = heaviest(weights);
  fill(drawn.quiet, ...kept.map((at) => line(weights, drawn.places, at)));
  note.textContent = noteOn(weights, kept);
  return { ...drawn, key, weights };
}

/** Draw the two rows, and room for the lines between them. */
function stage(trace, store, unit, rowPassage, columnPassage, scroller, room) {
  const units = { rows: trace.units(rowPassage, unit), columns: trace.units(columnPassage, unit) };
  const places = layout(
    { units: units.columns, text: trace[columnPassage].text },
    { units: units.rows, text: trace[rowPassage].text },
    room - 2,
  );
  const columns = drawRow(places.top, units.columns, columnPassage);
  const rows = drawRow(places.bottom, units.rows, rowPassage);
  const [quiet, loud] = [svg("g", { class: "quiet" }), svg("g", { class: "loud" })];
  const { width, height } = places;
  const label = `Lines from ${rows.length} that look to ${columns.length} that are looked at; the table under the matrix holds the numbers.`;
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, style: { font: places.font } });
  picture.append(quiet, loud, ...columns, ...rows);
  follow(trace, store, unit, picture);
  fill(scroller, picture);
  return { places, quiet, loud, columns, rows, units };
}

/** Point at the token under the pointer and pin the one that is clicked: one listener for all, as there may be hundreds. */
function follow(trace, store, unit, picture) {
  const tokenAt = ({ target }) => {
    const node = target.closest(".unit");
    return node === null ? null : trace.same({ passage: node.dataset.row, place: trace.units(node.dataset.row, unit)[node.dataset.unit].tokens[0] });
  };
  let under = null;
  picture.addEventListener("pointerover", (event) => {
    const node = event.target.closest(".unit");
    if (node === under) return;
    under = node;
    store.set({ pointed: tokenAt(event), met: null });
  });
  picture.addEventListener("pointerleave", () => {
    if (under !== null) store.set({ pointed: null });
    under = null;
  });
  picture.addEventListener("click", (event) => tokenAt(event) !== null && store.set({ pinned: tokenAt(event) }));
}

/** Return the places of the weights that are drawn: all that can be seen, but no more than a browser draws at once. */
function heaviest({ data }) {
  const counts = new Uint32Array(FINE + 1);
  for (let at = 0; at < data.length; at++) counts[Math.floor(data[at] * FINE)]++;
  let bin = FINE + 1;
  for (let sum = 0; bin > LEAST * FINE && sum + counts[bin - 1] <= MOST; bin--) sum += counts[bin - 1];
  const places = [];
  for (let at = 0; at < data.length; at++) if (Math.floor(data[at] * FINE) >= bin) places.push(at);
  return places;
}

function noteOn({ data }, kept) {
  let [all, shown, seen] = [0, 0, 0];
  for (const at of kept) shown += data[at];
  for (let at = 0; at < data.length; at++) {
    all += data[at];
    if (data[at] >= LEAST) seen++;
  }
  if (kept.length >= seen) return `Lines below ${LEAST} are left out until you point at a token.`;
  return `The ${kept.length} heaviest of ${counted(data.length)} lines are drawn: ${percent(shown / all)} of all weight. Point at a token for all of its lines.`;
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
  const { weights, places, quiet, loud, rows, columns } = drawn;
  const { row, column } = gazeOf(trace, state);
  const lit = [];
  if (row !== null) for (let c = 0; c < weights.columns; c++) lit.push(row * weights.columns + c);
  else if (column !== null) for (let r = 0; r < weights.rows; r++) lit.push(r * weights.columns + column);
  const strong = lit.filter((at) => weights.data[at] >= 0.0005);
  quiet.classList.toggle("hushed", strong.length > 0);
  fill(loud, ...strong.map((at) => line(weights, places, at)));
  rows.forEach((node, number) => node.classList.toggle("looks", number === row));
  const best = strongest(weights, row);
  columns.forEach((node, number) => node.classList.toggle("looked-at", number === column || number === best));
  if (row !== null && !places.flat && state.pointed === null) store.afterwards(scroller, () => keepInView(scroller, places.bottom[row]));
}

/** Say the number of a line when it is pointed at. */
function name(path, { data, columns }, units) {
  const [row, column] = [Number(path.dataset.row), Number(path.dataset.column)];
  const text = `${quoted(units.rows[row].text)} looks at ${quoted(units.columns[column].text)}: ${short(data[row * columns + column])}`;
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
