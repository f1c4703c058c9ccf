// What an element shows as one SVG that needs no page: boxes as rectangles, texts as texts, every style written into it.
// An element that knows better (a canvas whose cells and labels can be drawn again) has a function `vector`.

import { svg } from "./dom.js";
import { copied } from "./copied.js";
import { ink } from "./ink.js";
import { between, css } from "./scale.js";
import { linesOf } from "./wrapping.js";

const MARGIN = 12;
const SLICES = 40;
const SKIPPED = ".save, input, .controls, summary, [hidden]";

/** Return an SVG element of what an element shows, all that could be scrolled to included. */
export function vector(node) {
  node.classList.add("unrolled");
  try {
    const { left, top } = node.getBoundingClientRect();
    const sheet = { left: left - MARGIN, top: top - MARGIN, right: 0, bottom: 0 };
    const drawn = drawnElement(node, sheet);
    const [width, height] = [Math.ceil(sheet.right + MARGIN), Math.ceil(sheet.bottom + MARGIN)];
    const paper = svg("rect", { width, height, fill: paperUnder(node) });
    return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, paper, drawn);
  } finally {
    node.classList.remove("unrolled");
  }
}

/** Return an SVG element as text that every reader of XML accepts. */
export function written(picture) {
  const text = new XMLSerializer().serializeToString(picture).toWellFormed();
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
}

function drawnElement(node, sheet) {
  if (node.matches(SKIPPED) || !node.checkVisibility()) return null;
  const style = getComputedStyle(node);
  const box = placed(node.getBoundingClientRect(), sheet);
  if (["svg", "canvas"].includes(node.localName)) {
    grow(sheet, box);
    return node.localName === "canvas" ? drawnCanvas(node, box) : svg("g", { transform: `translate(${box.x} ${box.y})` }, ...[...node.children].map(copied));
  }
  const painted = boxes(style, box);
  if (painted.length > 0) grow(sheet, box);
  const parts = [...painted, marker(node, style, box), ...[...node.childNodes].flatMap((child) => drawnChild(child, style, sheet))];
  const shown = parts.filter((part) => part !== null);
  if (shown.length === 0) return null;
  return shown.length === 1 && style.opacity === "1" ? shown[0] : svg("g", { opacity: style.opacity === "1" ? null : style.opacity }, ...shown);
}

function drawnChild(child, style, sheet) {
  if (child instanceof Element) return [drawnElement(child, sheet)];
  if (child.nodeType !== Node.TEXT_NODE) return [];
  return linesOf(child, style).map((line) => {
    const box = placed(line.box, sheet);
    grow(sheet, box);
    return drawnText(line, style, box);
  });
}

/** The bullet or number of an item. */
function marker(node, style, { x, y }) {
  if (style.display !== "list-item" || style.listStyleType === "none") return null;
  const text = style.listStyleType === "decimal" ? `${[...node.parentElement.children].indexOf(node) + 1}.` : "•";
  const size = parseFloat(style.fontSize);
  const baseline = y + (parseFloat(style.lineHeight) + 0.7 * size) / 2;
  return svg("text", { x: round(x - 0.4 * size), y: round(baseline), "text-anchor": "end", "font-family": style.fontFamily, "font-size": style.fontSize, ...ink("fill", style.color) }, text);
}

/** Make the sheet large enough for a box. */
function grow(sheet, { x, y, width, height }) {
  [sheet.right, sheet.bottom] = [Math.max(sheet.right, x + width), Math.max(sheet.bottom, y + height)];
}

function drawnText({ text, ascent, room }, style, { x, y, width }) {
  const mirrored = style.direction === "rtl";
  return svg("text", {
    x: round(mirrored ? x + Math.min(width, room) : x),
    y: round(y + ascent),
    textLength: [...text].length > 1 ? round(Math.min(width, room)) : null,
    lengthAdjust: "spacingAndGlyphs",
    direction: mirrored ? "rtl" : null,
    "font-family": style.fontFamily,
    "font-size": style.fontSize,
    "font-weight": style.fontWeight,
    ...ink("fill", style.color),
  }, text);
}

function drawnCanvas(canvas, { x, y, width, height }) {
  if (canvas.vector !== undefined) return svg("g", { transform: `translate(${x} ${y})` }, ...canvas.vector());
  if (canvas.width === 0 || canvas.matches(".marks")) return null;
  return svg("image", { x, y, width, height, href: canvas.toDataURL(), preserveAspectRatio: "none", "image-rendering": "pixelated" });
}

/** The background, the border and the outline of a box. */
function boxes(style, { x, y, width, height }) {
  if (width === 0 || height === 0) return [];
  const radius = Math.min(parseFloat(style.borderTopLeftRadius) || 0, height / 2);
  const framed = (grown, paint) =>
    svg("rect", { x: round(x - grown), y: round(y - grown), width: round(width + 2 * grown), height: round(height + 2 * grown), rx: radius > 0 ? radius : null, ...paint });
  const made = [];
  if (style.backgroundImage.startsWith("linear-gradient")) made.push(...ramp(style.backgroundImage, { x, y, width, height }));
  else if (!clear(style.backgroundColor)) made.push(framed(0, ink("fill", style.backgroundColor)));
  const border = parseFloat(style.borderBottomWidth);
  if (border > 0 && style.borderBottomStyle !== "none" && !clear(style.borderBottomColor)) {
    made.push(framed(-border / 2, { fill: "none", "stroke-width": border, "stroke-dasharray": style.borderBottomStyle === "dashed" ? "3 2" : null, ...ink("stroke", style.borderBottomColor) }));
  }
  const outline = parseFloat(style.outlineWidth);
  if (style.outlineStyle === "solid" && outline > 0) {
    made.push(framed(parseFloat(style.outlineOffset) + outline / 2, { fill: "none", "stroke-width": outline, ...ink("stroke", style.outlineColor) }));
  }
  return made;
}

/** A gradient from left to right, its colours evenly spread (the theme has no others), as slices of one colour each. */
function ramp(image, { x, y, width, height }) {
  const stops = (image.match(/rgba?\([^)]*\)/g) ?? []).map((colour) => colour.match(/\d+/g).map(Number));
  return between(stops, SLICES).map((colour, at) =>
    svg("rect", { x: round(x + (at * width) / SLICES), y, width: round(width / SLICES + 0.5), height, fill: css(colour) }));
}

/** The colour of the surface that an element lies on. */
function paperUnder(node) {
  for (let at = node; at !== null; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!clear(colour)) return colour;
  }
  return "#ffffff";
}

function clear(colour) {
  return colour === "transparent" || /^rgba\(.*, 0\)$/.test(colour);
}

function placed({ left, top, width, height }, sheet) {
  return { x: round(left - sheet.left), y: round(top - sheet.top), width, height };
}

function round(number) {
  return Math.round(number * 100) / 100;
}
