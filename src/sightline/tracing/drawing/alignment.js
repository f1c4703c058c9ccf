// Which words looked at which, as lines between the two sentences, never without the warning that this is no alignment.

import { afterwards } from "./afterwards.js";
import { element, fill, svg } from "./dom.js";
import { thickness } from "./lines.js";
import { short } from "./numbers.js";
import { curve, drawRow, layout } from "./rows.js";
import { quoted } from "./texts.js";

/** Draw the links of a trace that has them. */
export function alignment(trace, store) {
  const { links, warning, attention } = trace.alignment;
  const letters = { source: [...trace.source.text], target: [...trace.target.text] };
  const words = { source: spans(links, "source", letters), target: spans(links, "target", letters) };
  const scroller = element("div", { class: "scroller lines" });
  const draw = ({ width }) => width > 0 && afterwards(scroller, () => fill(scroller, picture(trace, links, words, scroller.clientWidth - 2)));
  store.watch(["width"], draw);
  const items = links.map((link) =>
    element("li", {}, `${quoted(cut(letters, link, "target"))} looked at ${quoted(cut(letters, link, "source"))}: ${short(link.weight)}`));
  const listing = element("details", { class: "numbers" }, element("summary", {}, "The links as a list"), element("ul", {}, ...items));
  return element("div", { class: "picture" }, element("p", { class: "warning", role: "note" }, warning),
    scroller, element("p", { class: "note" }, `Read from ${attention}, mean of its heads.`), listing);
}

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
  const ignore = () => undefined;
  return svg("svg", { width: places.width, height: places.height, role: "img", "aria-label": "Links between the words of the two texts; the list below holds them." },
    svg("g", { class: "loud" }, ...lines), ...drawRow(places.top, words.source, places.font, ignore), ...drawRow(places.bottom, words.target, places.font, ignore));
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
