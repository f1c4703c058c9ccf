// The weights of the matrix as a table, for screen readers and for copying; filled when it is opened.

import { element, fill } from "./dom.js";
import { selectionOf } from "./selection.js";
import { short } from "./numbers.js";
import { visible } from "./token_text.js";

const MAX_CELLS = 2500;

/** Create the collapsible table of the selected heads' weights. */
export function weightsTable(trace, store) {
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
