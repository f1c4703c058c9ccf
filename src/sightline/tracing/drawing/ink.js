// Colours as every program that opens SVG understands them.

/** Return the attributes of a computed colour: {fill} or {stroke}, and its opacity where it is not 1. */
export function ink(name, colour) {
  const mixed = /^color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)(?: \/ ([\d.]+))?\)$/.exec(colour);
  const seen = /^rgba\((\d+), (\d+), (\d+), ([\d.]+)\)$/.exec(colour);
  if (mixed !== null) return shade(name, mixed.slice(1, 4).map((share) => Math.round(255 * share)), mixed[4]);
  return seen === null ? { [name]: colour } : shade(name, seen.slice(1, 4), seen[4]);
}

function shade(name, parts, opacity) {
  return { [name]: `rgb(${parts.join(", ")})`, ...(opacity === undefined ? {} : { [`${name}-opacity`]: opacity }) };
}
