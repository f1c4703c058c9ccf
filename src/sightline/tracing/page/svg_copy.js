// Copy part of an SVG, with its computed styles as attributes.

import { svg } from "./dom.js";
import { colorAttributes } from "./svg_color.js";

const KEPT = ["x", "y", "width", "height", "rx", "d", "transform", "stroke-width", "stroke-opacity"];
const PLAIN = { "stroke-width": "1px", "stroke-dasharray": "none", "stroke-opacity": "1", "stroke-linecap": "butt", opacity: "1" };
const TEXT = ["font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline"];

/** Return a copy of an SVG element that looks the same without the page's stylesheet. */
export function copySvg(node) {
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
