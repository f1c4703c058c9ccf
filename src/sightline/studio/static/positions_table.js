// The values of the curves as a table, for screen readers and for copying; filled when it is opened.

import { element, fill } from "/drawing/dom.js";
import { short } from "/drawing/numbers.js";

/** Create the collapsible table: a row per position, a column per curve. */
export function positionsTable({ encoding, cosine }, scope) {
  const inner = element("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": "Table" });
  const folded = element("details", { class: "numbers" }, element("summary", {}, "Values as a table"), inner);
  const redraw = () => {
    if (!folded.open) return;
    const { n, row, dimensions } = scope.state;
    const cells = (names, tag) => names.map((name) => element(tag, tag === "th" ? { scope: "col" } : {}, name));
    const line = (at) => [...dimensions.map((dimension) => encoding(at, dimension)), cosine(row, at)].map(short);
    fill(inner, element("table", {}, element("caption", {}, "Selected dimensions, and similarity to one position"),
      element("thead", {}, element("tr", {}, ...cells(["position", ...dimensions.map((dimension) => `dimension ${dimension}`), `similarity to ${row}`], "th"))),
      element("tbody", {}, ...Array.from({ length: n }, (_, at) => element("tr", {}, element("th", { scope: "row" }, String(at)), ...cells(line(at), "td"))))));
  };
  folded.addEventListener("toggle", redraw);
  scope.watch(["n", "row", "dimensions"], redraw);
  return folded;
}
