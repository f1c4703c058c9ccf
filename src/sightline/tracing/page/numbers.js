// Format numbers with three significant digits and a real minus sign; choose the visible window of a long sequence.

/** Return a number with three significant digits. */
export function short(number) {
  if (number === 0) return "0";
  if (!Number.isFinite(number)) return number < 0 ? "−∞" : "∞";
  const size = Math.abs(number);
  const text = size >= 1e-4 && size < 1e6 ? plain(size) : size.toExponential(2).replace("-", "−");
  return number < 0 ? `−${text}` : text;
}

/** Return a number with the five digits that a page keeps, for JSON files; null if it is not finite. */
export function exact(number) {
  return Number.isFinite(number) ? Number(number.toPrecision(5)) : null;
}

/** Return a number with its sign, including +. */
export function withSign(number) {
  return number > 0 ? `+${short(number)}` : short(number);
}

/** Return an integer with thousands separators. */
export function groupDigits(number) {
  return String(number).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Return a fraction as a percentage. */
export function percent(share) {
  return `${short(100 * share)} %`;
}

/** Return the start of a window of `size` out of `count` steps: unchanged until the step comes near an edge. */
export function windowStart(before, step, count, size) {
  const inside = before !== null && step >= before + Math.min(2, before) && step < before + size - (before + size < count ? 2 : 0);
  return inside ? before : Math.max(0, Math.min(step - Math.floor(size / 2), count - size));
}

function plain(size) {
  return Number(size.toPrecision(3)) >= 1000 ? String(Math.round(size)) : size.toPrecision(3);
}
