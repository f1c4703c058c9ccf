// Links between source and target words, always with the warning that attention is not alignment.

import { element, fill, svg } from "./dom.js";
import { thickness } from "./lines.js";
import { short } from "./numbers.js";
import { curve, drawRow, layout } from "./token_rows.js";
import { quote } from "./token_text.js";
import { view } from "./view.js";

/** Draw the links of a trace that has them. */
export const alignment = view("alignment", (trace, store) => {
  if (trace.alignment === null || trace.alignment.links.length === 0) return null;
  const { links, warning, attention } = trace.alignment;
  const letters = { source: [...trace.source.text], target: [...trace.target.text] };
  const words = { source: spans(links, "source", letters), target: spans(links, "target", letters) };
  const scroller = element("div", { class: "scroller lines" });
  const gauge = element("div");
  store.measure(gauge, (width) => width > 0 && fill(scroller, picture(trace, links, words, width - 2)));
  const items = links.map((link) =>
    element("li", {}, `${quote(cut(letters, link, "target"))} attends to ${quote(cut(letters, link, "source"))}: ${short(link.weight)}`));
  const listing = element("details", { class: "numbers" }, element("summary", {}, "Links as a list"), element("ul", {}, ...items));
  const node = element("div", { class: "picture" }, gauge, element("p", { class: "warning", role: "note" }, warning),
    scroller, element("p", { class: "note" }, `From ${attention}, mean of all heads.`), listing);
  const named = links.map((link) => ({ ...link, source: cut(letters, link, "source"), target: cut(letters, link, "target") }));
  return { node, data: () => ({ warning, attention, links: named }) };
});

function picture(trace, links, words, width) {
  const columns = { units: words.source, text: trace.source.text };
  const rows = { units: words.target, text: trace.target.text };
  const boxes = layout(columns, rows, width);
  const lines = links.map((link) => {
    const row = words.target.findIndex((word) => word.start === link.target_start);
    const column = words.source.findIndex((word) => word.start === link.source_start);
    return svg("path", {
      d: curve(boxes.bottom[row], boxes.top[column], boxes.flat),
      "stroke-width": thickness(link.weight).toFixed(3),
      "stroke-opacity": (0.25 + 0.75 * link.weight).toFixed(3),
    }, svg("title", {}, `${quote(words.target[row].text)} attends to ${quote(words.source[column].text)}: ${short(link.weight)}`));
  });
  return svg("svg", { width: boxes.width, height: boxes.height, role: "img", "aria-label": "Links between source and target words; they are listed below.", style: { font: boxes.font } },
    svg("g", { class: "selected-lines" }, ...lines), ...drawRow(boxes.top, words.source, "source"), ...drawRow(boxes.bottom, words.target, "target"));
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
