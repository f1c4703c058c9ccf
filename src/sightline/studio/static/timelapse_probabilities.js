// The probability of each token of the trained model's output at every snapshot, as a table with bars.

import { element, fill } from "/drawing/dom.js";
import { groupDigits, short } from "/drawing/numbers.js";
import { saveButton } from "/drawing/save_button.js";
import { visible } from "/drawing/token_text.js";
import { targetTokens, probabilityOf, outputOf } from "./timelapse_frames.js";

/** Draw the table; `go(number)` is called for the clicked row. */
export function probabilityTable(host, frames, at, go) {
  const tokens = targetTokens(frames);
  const rows = frames.map((frame, number) => {
    const known = frame.given !== undefined;
    const cells = tokens.map((token, index) => (known ? cell(probabilityOf(frame, token, index)) : element("td")));
    return element("tr", { class: number === at ? "now" : null, "aria-current": number === at ? "true" : null, on: { click: () => go(number) } },
      element("th", { scope: "row" }, nameOf(frame)), ...cells, element("td", { class: "own-output", dir: "auto" }, known ? visible(outputOf(frame.own)) : "…"));
  });
  const heads = ["Step", ...tokens.map(({ text }) => visible(text)), "Own output"].map((name) => element("th", { scope: "col", dir: "auto" }, name));
  const table = element("table", { class: "logit-lens" }, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows));
  const whole = element("div", { class: "timelapse-probabilities" }, element("h3", {}, "Probability of the trained model's output at each snapshot"), element("div", { class: "scroller" }, table));
  whole.append(saveButton("timelapse", whole, () => frames.filter(({ given }) => given).map((frame) => ({
    step: frame.step, best: frame.best, output: outputOf(frame.own), tokens: tokens.map((token, index) => ({ text: token.text, probability: probabilityOf(frame, token, index) })) }))));
  fill(host, whole);
}

/** The label of a frame. */
export function nameOf({ step, best }) {
  return [step === null ? "" : groupDigits(step), best ? "best" : ""].filter(Boolean).join(", ");
}

function cell(share) {
  if (share === null) return element("td", { title: "Not among the top candidates" }, "low");
  return element("td", {}, element("span", { class: "share", style: { "--share": String(share) } }), short(share));
}
