// Numbers as people read them, three significant digits and a real minus sign; and which part of a long row is shown.

/** Return a number with three significant digits. */
export function short(number) {
  if (number === 0) return "0";
  if (!Number.isFinite(number)) return number < 0 ? "−∞" : "∞";
  const size = Math.abs(number);
  const text = size >= 1e-4 && size < 1e6 ? plain(size) : size.toExponential(2).replace("-", "−");
  return number < 0 ? `−${text}` : text;
}

/** Return a number with the digits that a trace keeps in a page, for files; JSON knows no infinity. */
export function exact(number) {
  return Number.isFinite(number) ? Number(number.toPrecision(5)) : null;
}

/** Return a number that may be below zero with its sign, also where that is +. */
export function signed(number) {
  return number > 0 ? `+${short(number)}` : short(number);
}

/** Return a whole number with its thousands apart. */
export function counted(number) {
  return String(number).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Return a share of one as a percentage. */
export function percent(share) {
  return `${short(100 * share)} %`;
}

/** Return where a window of `size` steps out of `count` begins: where it did, until the step comes near its edge. */
export function windowStart(before, step, count, size) {
  const inside = before !== null && step >= before + Math.min(2, before) && step < before + size - (before + size < count ? 2 : 0);
  return inside ? before : Math.max(0, Math.min(step - Math.floor(size / 2), count - size));
}

function plain(size) {
  return Number(size.toPrecision(3)) >= 1000 ? String(Math.round(size)) : size.toPrecision(3);
}
