// Light or dark theme: the system's until the button changes it; and its color scales, sequential for weights, diverging for
// signed values.

import { button } from "./dom.js";

/** Return the color scales of the current theme. */
export function palette() {
  return { weight: colors("--weights"), signed: colors("--signs") };
}

/** Apply the system's theme. */
export function systemTheme() {
  document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Create the button that switches the theme; the system's own changes are followed too, and so is printing. */
export function themeButton(store) {
  const { dataset } = document.documentElement;
  const node = button("", () => apply(dataset.theme === "dark" ? "light" : "dark"));
  const apply = (theme) => {
    dataset.theme = theme;
    node.textContent = theme === "dark" ? "☼ Light" : "☾ Dark";
    store.set({ palette: palette() });
  };
  store.listen(matchMedia("(prefers-color-scheme: dark)"), "change", (event) => apply(event.matches ? "dark" : "light"));
  store.listen(matchMedia("print"), "change", () => store.set({ palette: palette() })); // paper is light
  apply(dataset.theme);
  return node;
}

/** Return 256 colors [r, g, b] interpolated between the stops in a custom property. */
function colors(property) {
  return interpolate(getComputedStyle(document.documentElement).getPropertyValue(property).split(",").map(parseHex), 256);
}

/** Return `count` colors interpolated evenly between stops. */
export function interpolate(stops, count) {
  return Array.from({ length: count }, (_, i) => {
    const at = (i / (count - 1)) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((value, k) => Math.round(value + (at - low) * (stops[low + 1][k] - value)));
  });
}

/** Return the color for a number from 0 to 1. */
export function colorOf(table, share) {
  return table[Math.max(0, Math.min(255, Math.round(share * 255)))];
}

/** Return the colors as 32-bit pixels of ImageData. */
export function packColors(table) {
  return Uint32Array.from(table, ([red, green, blue]) => (255 << 24) | (blue << 16) | (green << 8) | red);
}

/** Return a color in CSS notation. */
export function cssColor([red, green, blue]) {
  return `rgb(${red}, ${green}, ${blue})`;
}

/** Set an element's background color, and a text color that contrasts with it. */
export function paint(node, color) {
  node.style.setProperty("background-color", color === null ? "" : cssColor(color));
  node.style.setProperty("color", color === null ? "" : textColorOn(color));
}

/** Return black or white, the one with more contrast to a color (by relative luminance). */
export function textColorOn(color) {
  const [red, green, blue] = color.map((value) => ((value / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#000000" : "#ffffff";
}

function parseHex(text) {
  const hex = text.trim();
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
