// The numbers behind the matrix as a table, for screen readers and for copying; filled when it is opened.

import { element, fill } from "./dom.js";
import { gazeOf } from "./gaze.js";
import { short } from "./numbers.js";
import { visible } from "./texts.js";

const MOST_CELLS = 2500;

/** Make the folded table of the chosen heads' weights. */
export function numbersTable(trace, store) {
  const body = element("div", { class: "scroller" });
  const folded = element("details", { class: "numbers" }, element("summary", {}, "The numbers as a table"), body);
  const redraw = () => folded.open && fill(body, ...tables(trace, store.state));
  folded.addEventListener("toggle", redraw);
  store.watch(["heads", "unit", "step", "pinned"], redraw);
  return folded;
}

function tables(trace, state) {
  const gaze = gazeOf(trace, { ...state, pointed: null });
  const rows = trace.units(gaze.rowPassage, state.unit);
  const columns = trace.units(gaze.columnPassage, state.unit);
  if (rows.length * columns.length <= MOST_CELLS) return [table(gaze.weights, rows, columns, rows.map((_, r) => r))];
  const row = gaze.row ?? 0;
  const note = `${rows.length} rows are too many to read at once: this is the row of the current step, or of the token you pin.`;
  return [element("p", { class: "note" }, note), table(gaze.weights, rows, columns, [row])];
}

function table({ data, columns: width }, rows, columns, shown) {
  const name = (unit, scope) => element("th", { scope, dir: "auto" }, visible(unit.text));
  const head = element("tr", {}, element("td"), ...columns.map((unit) => name(unit, "col")));
  const body = shown.map((r) =>
    element("tr", {}, name(rows[r], "row"), ...columns.map((_, c) => element("td", {}, short(data[r * width + c])))),
  );
  return element("table", {}, element("caption", {}, "Rows look at columns"), element("thead", {}, head), element("tbody", {}, ...body));
}
