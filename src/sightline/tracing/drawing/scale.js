// Colours for numbers, read from the theme: one hue for weights, two for signed values.

/** Return 256 colours [r, g, b] between the stops that a custom property lists. */
export function colours(property) {
  return between(getComputedStyle(document.documentElement).getPropertyValue(property).split(",").map(parsed), 256);
}

/** Return a number of colours, evenly spread between some. */
export function between(stops, count) {
  return Array.from({ length: count }, (_, i) => {
    const at = (i / (count - 1)) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((value, k) => Math.round(value + (at - low) * (stops[low + 1][k] - value)));
  });
}

/** Return the colour for a number from 0 to 1. */
export function colourOf(table, share) {
  return table[Math.max(0, Math.min(255, Math.round(share * 255)))];
}

/** Return the colours as the numbers that ImageData holds, a pixel each, as 32 bits. */
export function words(table) {
  return Uint32Array.from(table, ([red, green, blue]) => (255 << 24) | (blue << 16) | (green << 8) | red);
}

/** Write a colour as CSS does. */
export function css([red, green, blue]) {
  return `rgb(${red}, ${green}, ${blue})`;
}

/** Colour an element's background, and its text so that it can be read there. */
export function paint(node, colour) {
  node.style.setProperty("background-color", colour === null ? "" : css(colour));
  node.style.setProperty("color", colour === null ? "" : inkOn(colour));
}

/** Return black or white, whichever is further from a colour (by relative luminance). */
export function inkOn(colour) {
  const [red, green, blue] = colour.map((value) => ((value / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#000000" : "#ffffff";
}

function parsed(text) {
  const hex = text.trim();
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
