// Convert what an element shows to a self-contained SVG: boxes as rectangles, text as text, all styles as attributes.
// An element with a better representation (a canvas that can redraw its cells and labels) has a method `toSvg`.

import { svg } from "./dom.js";
import { copySvg } from "./svg_copy.js";
import { colorAttributes } from "./svg_color.js";
import { interpolate, cssColor } from "./color_scale.js";
import { linesOf } from "./text_lines.js";

const MARGIN = 12;
const SLICES = 40;
const SKIPPED = ".save, input, .controls, summary, [hidden]";

/** Return what an element shows as an SVG element, including what is scrolled out of view. */
export function toSvg(node) {
  node.classList.add("exporting");
  try {
    const { left, top } = node.getBoundingClientRect();
    const sheet = { left: left - MARGIN, top: top - MARGIN, right: 0, bottom: 0 };
    const drawn = drawnElement(node, sheet);
    const [width, height] = [Math.ceil(sheet.right + MARGIN), Math.ceil(sheet.bottom + MARGIN)];
    const paper = svg("rect", { width, height, fill: backgroundOf(node) });
    return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, paper, drawn);
  } finally {
    node.classList.remove("exporting");
  }
}

/** Return an SVG element as well-formed XML text. */
export function svgText(picture) {
  const text = new XMLSerializer().serializeToString(picture).toWellFormed();
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
}

function drawnElement(node, sheet) {
  if (node.matches(SKIPPED) || !node.checkVisibility()) return null;
  const style = getComputedStyle(node);
  const box = toSheet(node.getBoundingClientRect(), sheet);
  if (["svg", "canvas"].includes(node.localName)) {
    grow(sheet, box);
    return node.localName === "canvas" ? drawnCanvas(node, box) : svg("g", { transform: `translate(${box.x} ${box.y})` }, ...[...node.children].map(copySvg));
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
    const box = toSheet(line.box, sheet);
    grow(sheet, box);
    return drawnText(line, style, box);
  });
}

/** The bullet or number of a list item. */
function marker(node, style, { x, y }) {
  if (style.display !== "list-item" || style.listStyleType === "none") return null;
  const text = style.listStyleType === "decimal" ? `${[...node.parentElement.children].indexOf(node) + 1}.` : "•";
  const size = parseFloat(style.fontSize);
  const baseline = y + (parseFloat(style.lineHeight) + 0.7 * size) / 2;
  return svg("text", { x: round(x - 0.4 * size), y: round(baseline), "text-anchor": "end", "font-family": style.fontFamily, "font-size": style.fontSize, ...colorAttributes("fill", style.color) }, text);
}

/** Grow the sheet to include a box. */
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
    ...colorAttributes("fill", style.color),
  }, text);
}

function drawnCanvas(canvas, { x, y, width, height }) {
  if (canvas.toSvg !== undefined) return svg("g", { transform: `translate(${x} ${y})` }, ...canvas.toSvg());
  if (canvas.width === 0 || canvas.matches(".marks")) return null;
  return svg("image", { x, y, width, height, href: canvas.toDataURL(), preserveAspectRatio: "none", "image-rendering": "pixelated" });
}

/** The background, the border and the outline of a box. */
function boxes(style, { x, y, width, height }) {
  if (width === 0 || height === 0) return [];
  const radius = Math.min(parseFloat(style.borderTopLeftRadius) || 0, height / 2);
  const frame = (grown, paint) =>
    svg("rect", { x: round(x - grown), y: round(y - grown), width: round(width + 2 * grown), height: round(height + 2 * grown), rx: radius > 0 ? radius : null, ...paint });
  const made = [];
  if (style.backgroundImage.startsWith("linear-gradient")) made.push(...ramp(style.backgroundImage, { x, y, width, height }));
  else if (!isTransparent(style.backgroundColor)) made.push(frame(0, colorAttributes("fill", style.backgroundColor)));
  const border = parseFloat(style.borderBottomWidth);
  if (border > 0 && style.borderBottomStyle !== "none" && !isTransparent(style.borderBottomColor)) {
    made.push(frame(-border / 2, { fill: "none", "stroke-width": border, "stroke-dasharray": style.borderBottomStyle === "dashed" ? "3 2" : null, ...colorAttributes("stroke", style.borderBottomColor) }));
  }
  const outline = parseFloat(style.outlineWidth);
  if (style.outlineStyle === "solid" && outline > 0) {
    made.push(frame(parseFloat(style.outlineOffset) + outline / 2, { fill: "none", "stroke-width": outline, ...colorAttributes("stroke", style.outlineColor) }));
  }
  return made;
}

/** A horizontal gradient with evenly spaced stops (the theme has no others), as slices of one color each. */
function ramp(image, { x, y, width, height }) {
  const stops = (image.match(/rgba?\([^)]*\)/g) ?? []).map((color) => color.match(/\d+/g).map(Number));
  return interpolate(stops, SLICES).map((color, at) =>
    svg("rect", { x: round(x + (at * width) / SLICES), y, width: round(width / SLICES + 0.5), height, fill: cssColor(color) }));
}

/** The background color behind an element. */
function backgroundOf(node) {
  for (let at = node; at !== null; at = at.parentElement) {
    const color = getComputedStyle(at).backgroundColor;
    if (!isTransparent(color)) return color;
  }
  return "#ffffff";
}

function isTransparent(color) {
  return color === "transparent" || /^rgba\(.*, 0\)$/.test(color);
}

function toSheet({ left, top, width, height }, sheet) {
  return { x: round(left - sheet.left), y: round(top - sheet.top), width, height };
}

function round(number) {
  return Math.round(number * 100) / 100;
}
