// Texts and numbers as they are displayed: tokens safe (nothing hidden, no overflow, no change of text direction outside the
// token), numbers with three significant digits and a real minus sign, and the width of a text in a font.

// Control characters, and characters that change direction or have no width (except the two joiners that scripts need).
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const PLAIN = /^ ?[!-~]+$/;
const STRONG = /[A-Za-z\u00c0-\u058f\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u0900-\u1fff\u3040-\ud7ff]/;
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

/** Return a token's text with leading and trailing spaces and hidden characters made visible. */
export function visible(text) {
  if (text === "") return "∅";
  if (PLAIN.test(text)) return text.startsWith(" ") ? `·${text.slice(1)}` : text; // the usual case, kept fast
  return text
    .replace(/\n/g, "⏎")
    .replace(/\t/g, "⇥")
    .replace(HIDDEN, (letter) => `U+${letter.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`)
    .replace(/^ +| +$/g, (blanks) => "·".repeat(blanks.length));
}

/** Return the visible text, truncated to a number of characters. */
export function clip(text, length = 18) {
  const shown = visible(text);
  if (shown.length <= length) return shown;
  const letters = [...shown];
  return letters.length <= length ? letters.join("") : `${letters.slice(0, length - 1).join("")}…`;
}

/** Return the visible text in quotation marks, with its direction isolated. */
export function quote(text) {
  return `“\u2068${clip(text, 40)}\u2069”`;
}

/** Return whether a text is written right to left, by its first letter. */
export function isRightToLeft(text) {
  const first = STRONG.exec(text);
  return first !== null && RIGHT_TO_LEFT.test(first[0]);
}

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

function plain(size) {
  return Number(size.toPrecision(3)) >= 1000 ? String(Math.round(size)) : size.toPrecision(3);
}

export const FAMILY = 'system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif';

const ruler = document.createElement("canvas").getContext("2d");
const widths = new Map();

/** Return the font of texts in pictures, in CSS notation. */
export function fontOf(size, weight = 500) {
  return `${weight} ${size}px ${FAMILY}`;
}

/** Return the width of a text in a font. */
export function textWidth(text, font) {
  const key = `${font}\n${text}`;
  if (!widths.has(key)) {
    ruler.font = font;
    widths.set(key, ruler.measureText(text).width);
  }
  return widths.get(key);
}
