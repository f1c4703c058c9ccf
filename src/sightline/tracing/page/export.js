// A view as a file: the save button, the picture as SVG or PNG, its numbers as JSON. What an element shows becomes a
// self-contained SVG: boxes as rectangles, text as text, all styles as attributes. An element with a better representation
// (a canvas that can redraw its cells and labels) has a method `toSvg`. Every file says what it shows, of which model and of
// which text: in its name, and in a title and a source line or entries inside.

import { button, element, svg } from "./dom.js";
import { FAMILY, fontOf } from "./text.js";
import { cssColor, interpolate } from "./theme.js";

const MARGIN = 12;
const SLICES = 40;
const SKIPPED = ".save, input, .controls, summary, [hidden]";
const KEPT = ["x", "y", "width", "height", "rx", "d", "transform", "stroke-width", "stroke-opacity"];
const PLAIN = { "stroke-width": "1px", "stroke-dasharray": "none", "stroke-opacity": "1", "stroke-linecap": "butt", opacity: "1" };
const TEXT = ["font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline"];
const PNG_SCALE = 2; // pixels per CSS pixel, unless the image would be too large for a browser
const MAX_SIDE = 8192;
const SOURCE_SIZE = 11; // of the source line
const MIN_SOURCE_WIDTH = 360;
const MAX_NAME = 40; // characters of a text in the name of a file
const ruler = new OffscreenCanvas(1, 1).getContext("2d");

let findSource = () => ({});

/** Set what saved files are of: `find()` returns {model, text}, either of which may be missing. */
export function describeSource(find) {
  findSource = find;
}

/** Create the save button of a view; `data` returns the numbers it shows, `name` may be a function that returns the name of what is shown now. */
export function saveButton(name, node, data) {
  const nameNow = () => (typeof name === "function" ? name() : name);
  const acts = {
    SVG: (about) => file(`<?xml version="1.0" encoding="UTF-8"?>\n${svgText(toSvg(node, about))}\n`, "image/svg+xml"),
    PNG: (about) => toPng(toSvg(node, about)),
    JSON: (about) => file(`${JSON.stringify(withSource(data(), about), null, 1)}\n`, "application/json"),
  };
  const save = async (kind) => {
    const { model = null, text = null } = findSource();
    const about = { title: titleOf(node) ?? nameNow(), model, text };
    download(await acts[kind](about), `${fileName(["sightline", model, nameNow(), text])}.${kind.toLowerCase()}`);
  };
  const choices = Object.keys(acts).map((kind) => button(kind, () => save(kind), { class: "link", "aria-label": `Save as ${kind}` }));
  const kinds = element("span", { class: "save-kinds", hidden: true }, ...choices);
  const opener = button("Save", () => {
    kinds.hidden = !kinds.hidden;
    opener.setAttribute("aria-expanded", String(!kinds.hidden));
  }, { class: "link", "aria-expanded": "false", title: "Save this view" });
  return element("div", { class: "save" }, kinds, opener);
}

/** The heading of what is saved. */
function titleOf(node) {
  return node.closest("section")?.querySelector("h2")?.textContent || null;
}

/** Join the parts of a file name that are there, in characters that every system allows. */
function fileName(parts) {
  const plain = (part) => part.normalize("NFC").replace(/[^\p{L}\p{M}\p{N}.]+/gu, "-").replace(/^[-.]+|[-.]+$/g, "");
  return parts.filter(Boolean).map((part) => plain([...part].slice(0, MAX_NAME).join(""))).filter(Boolean).join("-");
}

/** Numbers with what they are of; a list becomes an entry. */
function withSource(data, about) {
  return { ...about, ...(Array.isArray(data) ? { values: data } : data) };
}

/** The sentence that names the source of a picture. */
function sourceLine({ title, model, text }) {
  return [title, model, text && `“${text}”`, "Sightline"].filter(Boolean).join(" · ");
}

function file(text, type) {
  return new Blob([text], { type });
}

function download(blob, name) {
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/** Return what an element shows as an SVG element, including what is scrolled out of view, with its source below. */
function toSvg(node, about) {
  node.classList.add("exporting");
  try {
    const { left, top } = node.getBoundingClientRect();
    const sheet = { left: left - MARGIN, top: top - MARGIN, right: 0, bottom: 0 };
    const drawn = drawnElement(node, sheet);
    const line = sourceLine(about);
    const [width, height] = [Math.max(MIN_SOURCE_WIDTH, Math.ceil(sheet.right + MARGIN)), Math.ceil(sheet.bottom + MARGIN + 1.6 * SOURCE_SIZE)];
    const paper = svg("rect", { width, height, fill: backgroundOf(node) });
    const soft = getComputedStyle(node).getPropertyValue("--soft");
    const source = svg("text", { x: MARGIN, y: height - MARGIN / 2, "font-family": FAMILY, "font-size": SOURCE_SIZE, fill: soft }, fitted(line, width - 2 * MARGIN));
    return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, svg("title", {}, line), paper, drawn, source);
  } finally {
    node.classList.remove("exporting");
  }
}

/** The beginning of a text that fits into a width. */
function fitted(text, width) {
  ruler.font = fontOf(SOURCE_SIZE, 400);
  const letters = [...text];
  const fits = (count) => ruler.measureText(letters.slice(0, count).join("")).width <= width;
  if (fits(letters.length)) return text;
  let count = letters.length;
  while (count > 0 && !fits(count + 2)) count--;
  return `${letters.slice(0, count).join("")} …`;
}

/** Return an SVG element as well-formed XML text. */
function svgText(picture) {
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

/** Return a copy of an SVG element that looks the same without the page's stylesheet. */
function copySvg(node) {
  if (node.localName === "title") return svg("title", {}, node.textContent);
  const attributes = Object.fromEntries(KEPT.filter((name) => node.hasAttribute(name)).map((name) => [name, node.getAttribute(name)]));
  const inside = node.localName === "text" ? [node.textContent] : [...node.children].map(copySvg);
  return svg(node.localName, { ...attributes, ...styles(node) }, ...inside);
}

function styles(node) {
  const style = getComputedStyle(node);
  const opacity = style.opacity === "1" ? {} : { opacity: style.opacity };
  if (node.localName === "g") return opacity;
  const drawn = Object.entries(PLAIN).map(([name, plain]) => [name, style.getPropertyValue(name), plain]);
  const own = drawn.filter(([, value, plain]) => value !== plain).map(([name, value]) => [name, value]);
  const letters = node.localName === "text" ? TEXT.map((name) => [name, style.getPropertyValue(name)]) : [];
  return { ...colorAttributes("fill", style.fill), ...colorAttributes("stroke", style.stroke), ...Object.fromEntries([...own, ...letters]) };
}

/** Return the attributes of a computed color: {fill} or {stroke}, and its opacity unless that is 1. */
function colorAttributes(name, color) {
  const mixed = /^color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)(?: \/ ([\d.]+))?\)$/.exec(color);
  const seen = /^rgba\((\d+), (\d+), (\d+), ([\d.]+)\)$/.exec(color);
  if (mixed !== null) return shade(name, mixed.slice(1, 4).map((share) => Math.round(255 * share)), mixed[4]);
  return seen === null ? { [name]: color } : shade(name, seen.slice(1, 4), seen[4]);
}

function shade(name, parts, opacity) {
  return { [name]: `rgb(${parts.join(", ")})`, ...(opacity === undefined ? {} : { [`${name}-opacity`]: opacity }) };
}

/** Return the lines of a text node: [{text, box, ascent, room}]; room is the width that its element allows. */
function linesOf(node, style) {
  const range = document.createRange();
  range.selectNodeContents(node);
  if (range.getClientRects().length === 0 || node.data.trim() === "") return [];
  ruler.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const ascent = ruler.measureText("x").fontBoundingBoxAscent;
  const room = style.textOverflow === "ellipsis" && style.display !== "inline" ? node.parentElement.clientWidth : Infinity;
  return findLines(node, range).map(({ start, end }) => {
    range.setStart(node, start);
    range.setEnd(node, end);
    return { text: node.data.slice(start, end), box: range.getBoundingClientRect(), ascent, room };
  });
}

/** Return where each line starts and ends, found word by word, and letter by letter in words that are split. */
function findLines(node, range) {
  const lines = [];
  const add = (start, text) => {
    const end = start + text.length;
    range.setStart(node, start);
    range.setEnd(node, end);
    const { top, bottom, height } = range.getBoundingClientRect();
    const last = lines.at(-1);
    if ([...text].length > 1 && height > 1.5 * range.getClientRects()[0].height) {
      for (const { index, 0: letter } of text.matchAll(/./gsu)) add(start + index, letter);
    } else if (last !== undefined && top < last.bottom - 2) last.end = end;
    else lines.push({ start, end, bottom });
  };
  for (const { index, 0: word } of node.data.matchAll(/\S+/g)) add(index, word);
  return lines;
}

/** Return a PNG of an SVG element. */
async function toPng(picture) {
  const [width, height] = ["width", "height"].map((name) => Number(picture.getAttribute(name)));
  const scale = Math.min(PNG_SCALE, MAX_SIDE / width, MAX_SIDE / height);
  const image = new Image(width, height);
  image.setAttribute("src", `data:image/svg+xml,${encodeURIComponent(svgText(picture))}`);
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.ceil(width * scale), Math.ceil(height * scale)];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
