// How likely each token of the trained model's answer was at every snapshot: a table, each cell filled as far as that.

import { element, fill } from "/drawing/dom.js";
import { counted, short } from "/drawing/numbers.js";
import { saving } from "/drawing/saving.js";
import { visible } from "/drawing/texts.js";
import { answerOf, likely, written } from "./timelapse_frames.js";

/** Draw the table; `go(number)` is called for the row that is clicked. */
export function odds(host, frames, at, go) {
  const tokens = answerOf(frames);
  const rows = frames.map((frame, number) => {
    const known = frame.given !== undefined;
    const cells = tokens.map((token, place) => (known ? cell(likely(frame, token, place)) : element("td")));
    return element("tr", { class: number === at ? "now" : null, "aria-current": number === at ? "true" : null, on: { click: () => go(number) } },
      element("th", { scope: "row" }, nameOf(frame)), ...cells, element("td", { class: "wrote", dir: "auto" }, known ? visible(written(frame.own)) : "…"));
  });
  const heads = ["Step", ...tokens.map(({ text }) => visible(text)), "Its own answer"].map((name) => element("th", { scope: "col", dir: "auto" }, name));
  const table = element("table", { class: "lens" }, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows));
  const whole = element("div", { class: "lapse-odds" }, element("h3", {}, "How likely the trained model’s answer was on the way"), element("div", { class: "scroller" }, table));
  whole.append(saving("timelapse", whole, () => frames.filter(({ given }) => given).map((frame) => ({
    step: frame.step, kept: frame.kept, wrote: written(frame.own), answer: tokens.map((token, place) => ({ text: token.text, probability: likely(frame, token, place) })) }))));
  fill(host, whole);
}

/** What a frame is called. */
export function nameOf({ step, kept }) {
  return [step === null ? "" : counted(step), kept ? "kept" : ""].filter(Boolean).join(", ");
}

function cell(share) {
  if (share === null) return element("td", { title: "Not among the likeliest" }, "rare");
  return element("td", {}, element("span", { class: "share", style: { "--share": String(share) } }), short(share));
}
