// Which words looked at which, as lines between the two sentences, never without the warning that this is no alignment.

import { element, fill, svg } from "./dom.js";
import { thickness } from "./lines.js";
import { short } from "./numbers.js";
import { curve, drawRow, layout } from "./rows.js";
import { quoted } from "./texts.js";
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
    element("li", {}, `${quoted(cut(letters, link, "target"))} looked at ${quoted(cut(letters, link, "source"))}: ${short(link.weight)}`));
  const listing = element("details", { class: "numbers" }, element("summary", {}, "The links as a list"), element("ul", {}, ...items));
  const node = element("div", { class: "picture" }, gauge, element("p", { class: "warning", role: "note" }, warning),
    scroller, element("p", { class: "note" }, `Read from ${attention}, mean of its heads.`), listing);
  const named = links.map((link) => ({ ...link, source: cut(letters, link, "source"), target: cut(letters, link, "target") }));
  return { node, data: () => ({ warning, attention, links: named }) };
});

function picture(trace, links, words, width) {
  const columns = { units: words.source, text: trace.source.text };
  const rows = { units: words.target, text: trace.target.text };
  const places = layout(columns, rows, width);
  const lines = links.map((link) => {
    const row = words.target.findIndex((word) => word.start === link.target_start);
    const column = words.source.findIndex((word) => word.start === link.source_start);
    return svg("path", {
      d: curve(places.bottom[row], places.top[column], places.flat),
      "stroke-width": thickness(link.weight).toFixed(3),
      "stroke-opacity": (0.25 + 0.75 * link.weight).toFixed(3),
    }, svg("title", {}, `${quoted(words.target[row].text)} looked at ${quoted(words.source[column].text)}: ${short(link.weight)}`));
  });
  return svg("svg", { width: places.width, height: places.height, role: "img", "aria-label": "Links between the words of the two texts; the list below holds them.", style: { font: places.font } },
    svg("g", { class: "loud" }, ...lines), ...drawRow(places.top, words.source, "source"), ...drawRow(places.bottom, words.target, "target"));
}

/** The words of a text, as the links name them: between blanks. Python counts characters, so texts are lists of those. */
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
