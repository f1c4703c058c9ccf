// A part of an SVG with the styles it has from the page written into it as attributes.

import { svg } from "./dom.js";
import { ink } from "./ink.js";

const KEPT = ["x", "y", "width", "height", "rx", "d", "transform", "stroke-width", "stroke-opacity"];
const PLAIN = { "stroke-width": "1px", "stroke-dasharray": "none", "stroke-opacity": "1", "stroke-linecap": "butt", opacity: "1" };
const TEXT = ["font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline"];

/** Return a copy of an SVG element that looks the same anywhere. */
export function copied(node) {
  if (node.localName === "title") return svg("title", {}, node.textContent);
  const attributes = Object.fromEntries(KEPT.filter((name) => node.hasAttribute(name)).map((name) => [name, node.getAttribute(name)]));
  const inside = node.localName === "text" ? [node.textContent] : [...node.children].map(copied);
  return svg(node.localName, { ...attributes, ...styles(node) }, ...inside);
}

function styles(node) {
  const style = getComputedStyle(node);
  const opacity = style.opacity === "1" ? {} : { opacity: style.opacity };
  if (node.localName === "g") return opacity;
  const drawn = Object.entries(PLAIN).map(([name, plain]) => [name, style.getPropertyValue(name), plain]);
  const own = drawn.filter(([, value, plain]) => value !== plain).map(([name, value]) => [name, value]);
  const letters = node.localName === "text" ? TEXT.map((name) => [name, style.getPropertyValue(name)]) : [];
  return { ...ink("fill", style.fill), ...ink("stroke", style.stroke), ...Object.fromEntries([...own, ...letters]) };
}
