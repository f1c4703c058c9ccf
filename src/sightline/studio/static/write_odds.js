// How likely each token of a text was to the model, what else it could have been, and the way to go on from there.

import { button, element, fill } from "/drawing/dom.js";
import { percent, short } from "/drawing/numbers.js";
import { saving } from "/drawing/saving.js";
import { quoted, visible } from "/drawing/texts.js";
import { bars } from "./write_parts.js";

const BYTES = /\\x[0-9a-f]{2}/; // part of a letter, which is no text yet

/** Ask how likely each token of a text is. */
export function oddsOf({ ask, model }, text, signal) {
  return ask("/trace", { model: model.id, input: "", target: text, probes: [], readout: false, candidates: 8 }, { signal });
}

/** Draw the tokens of a trace, each with its probability; `branch(text)` takes another turn. */
export function odds(trace, branch) {
  const { tokens, text } = trace.target;
  const special = new Set([...trace.source.tokens, ...tokens].filter((token) => token.special).map(({ id }) => id));
  const detail = element("div", { class: "others", "aria-live": "polite" });
  const letters = [...text]; // places are counted in characters, as Python does
  let pinned = null;
  const show = (place) => {
    const { candidates, chosen, rank } = trace.steps[place];
    const before = letters.slice(0, tokens[place].start).join("");
    fill(detail,
      element("h3", {}, `What could stand in place of ${quoted(tokens[place].text)} (${rank === 0 ? "the likeliest" : `${rank} ${rank === 1 ? "was" : "were"} likelier`})`),
      bars(candidates.map(({ id, text: one, probability }, at) => ({
        text: one,
        probability,
        title: at === chosen ? "This was written" : null,
        act: at === chosen || special.has(id) || BYTES.test(one) ? null : () => branch(before + one),
      })), { chosen }));
  };
  const chips = tokens.map((token, place) => {
    const { candidates, chosen } = trace.steps[place];
    const { probability } = candidates[chosen];
    const chip = button("", () => pin(place), { class: "token odd", "aria-pressed": "false", tabindex: place === 0 ? 0 : -1, "aria-label": `${visible(token.text)}, ${percent(probability)}` });
    chip.append(element("span", {}, visible(token.text)), element("span", { class: "track" }, element("i", { class: "bar", style: { "--share": probability } })), element("small", { class: "number" }, short(probability)));
    chip.addEventListener("pointerenter", () => show(place));
    chip.addEventListener("focus", () => show(place));
    return chip;
  });
  const pin = (place) => {
    pinned = pinned === place ? null : place;
    chips.forEach((chip, at) => (chip.ariaPressed = String(at === pinned)));
    show(place);
  };
  const strip = element("div", { class: "odds", role: "group", "aria-label": "Tokens and their probabilities" }, ...chips);
  strip.addEventListener("pointerleave", () => pinned !== null && show(pinned));
  strip.addEventListener("keydown", (event) => walk(event, chips));
  const said = element("p", { class: "explanation" }, `All together: ${short(Math.exp(trace.steps.reduce((sum, step) => sum + step.log_probability, 0) / trace.steps.length))} for each token on average (geometric mean). Point at one to see what else could have stood there; choose another to go on from it.`);
  const whole = element("div", { class: "view" }, said, strip, detail);
  const data = () => tokens.map((token, place) => ({ text: token.text, ...trace.steps[place] }));
  whole.append(saving("write", whole, data));
  if (tokens.length > 0) show(tokens.length - 1);
  return whole;
}

function walk(event, chips) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const at = chips.indexOf(document.activeElement);
  if (by === undefined || at < 0) return;
  event.preventDefault();
  chips[at].tabIndex = -1;
  const next = chips[Math.max(0, Math.min(chips.length - 1, at + by))];
  next.tabIndex = 0;
  next.focus();
}
