// Make the texts of tokens safe to display: nothing hidden, no overflow, no change of text direction outside the token.

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
