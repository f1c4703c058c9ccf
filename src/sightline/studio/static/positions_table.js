// The numbers of the curves as a table, for screen readers and for copying; filled when it is opened.

import { element, fill } from "/drawing/dom.js";
import { short } from "/drawing/numbers.js";

/** Make the folded table: a row for each position, a column for each curve. */
export function positionsTable({ code, cosine }, scope) {
  const inner = element("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": "Table" });
  const folded = element("details", { class: "numbers" }, element("summary", {}, "The numbers of the curves as a table"), inner);
  const redraw = () => {
    if (!folded.open) return;
    const { n, row, depths } = scope.state;
    const cells = (names, tag) => names.map((name) => element(tag, tag === "th" ? { scope: "col" } : {}, name));
    const line = (at) => [...depths.map((depth) => code(at, depth)), cosine(row, at)].map(short);
    fill(inner, element("table", {}, element("caption", {}, "Chosen depths, and the similarity to one position"),
      element("thead", {}, element("tr", {}, ...cells(["position", ...depths.map((depth) => `depth ${depth}`), `similarity to ${row}`], "th"))),
      element("tbody", {}, ...Array.from({ length: n }, (_, at) => element("tr", {}, element("th", { scope: "row" }, String(at)), ...cells(line(at), "td"))))));
  };
  folded.addEventListener("toggle", redraw);
  scope.watch(["n", "row", "depths"], redraw);
  return folded;
}
