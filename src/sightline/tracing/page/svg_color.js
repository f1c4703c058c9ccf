// Colors in the form that every SVG reader understands.

/** Return the attributes of a computed color: {fill} or {stroke}, and its opacity unless that is 1. */
export function colorAttributes(name, color) {
  const mixed = /^color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)(?: \/ ([\d.]+))?\)$/.exec(color);
  const seen = /^rgba\((\d+), (\d+), (\d+), ([\d.]+)\)$/.exec(color);
  if (mixed !== null) return shade(name, mixed.slice(1, 4).map((share) => Math.round(255 * share)), mixed[4]);
  return seen === null ? { [name]: color } : shade(name, seen.slice(1, 4), seen[4]);
}

function shade(name, parts, opacity) {
  return { [name]: `rgb(${parts.join(", ")})`, ...(opacity === undefined ? {} : { [`${name}-opacity`]: opacity }) };
}
