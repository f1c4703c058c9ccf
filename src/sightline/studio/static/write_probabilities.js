// The probability of each token of a text, its alternatives, and continuing from one of them.

import { button, element, fill } from "/drawing/dom.js";
import { percent, short } from "/drawing/numbers.js";
import { saveButton } from "/drawing/save_button.js";
import { quote, visible } from "/drawing/token_text.js";
import { bars } from "./view_parts.js";

const BYTES = /\\x[0-9a-f]{2}/; // part of a multi-byte character, not yet text

/** Fetch the trace of a text, with the probability of each token. */
export function traceText({ fetchJson, model }, text, signal) {
  return fetchJson("/trace", { model: model.id, input: "", target: text, activations: [], logit_lens: false, candidates: 8 }, { signal });
}

/** Draw the tokens of a trace with their probabilities; `branch(text)` is called with a text that ends in an alternative. */
export function tokenProbabilities(trace, branch) {
  const { tokens, text } = trace.target;
  const special = new Set([...trace.source.tokens, ...tokens].filter((token) => token.special).map(({ id }) => id));
  const detail = element("div", { class: "others", "aria-live": "polite" });
  const letters = [...text]; // offsets count code points, as in Python
  let pinned = null;
  const show = (index) => {
    const { candidates, chosen, rank } = trace.steps[index];
    const before = letters.slice(0, tokens[index].start).join("");
    fill(detail,
      element("h3", {}, `Alternatives to ${quote(tokens[index].text)} (rank ${rank + 1})`),
      bars(candidates.map(({ id, text: one, probability }, at) => ({
        text: one,
        probability,
        title: at === chosen ? "The token in the text" : null,
        act: at === chosen || special.has(id) || BYTES.test(one) ? null : () => branch(before + one),
      })), { chosen }));
  };
  const chips = tokens.map((token, index) => {
    const { candidates, chosen } = trace.steps[index];
    const { probability } = candidates[chosen];
    const chip = button("", () => pin(index), { class: "token probability", "aria-pressed": "false", tabindex: index === 0 ? 0 : -1, "aria-label": `${visible(token.text)}, ${percent(probability)}` });
    chip.append(element("span", {}, visible(token.text)), element("span", { class: "track" }, element("i", { class: "bar", style: { "--share": probability } })), element("small", { class: "number" }, short(probability)));
    chip.addEventListener("pointerenter", () => show(index));
    chip.addEventListener("focus", () => show(index));
    return chip;
  });
  const pin = (index) => {
    pinned = pinned === index ? null : index;
    chips.forEach((chip, at) => (chip.ariaPressed = String(at === pinned)));
    show(index);
  };
  const strip = element("div", { class: "token-probabilities", role: "group", "aria-label": "Tokens and their probabilities" }, ...chips);
  strip.addEventListener("pointerleave", () => pinned !== null && show(pinned));
  strip.addEventListener("keydown", (event) => moveFocus(event, chips));
  const said = element("p", { class: "explanation" }, `Mean probability per token: ${short(Math.exp(trace.steps.reduce((sum, step) => sum + step.log_probability, 0) / trace.steps.length))} (geometric mean). Hover over a token to see its alternatives; click one to continue from it.`);
  const whole = element("div", { class: "view" }, said, strip, detail);
  const data = () => tokens.map((token, index) => ({ text: token.text, ...trace.steps[index] }));
  whole.append(saveButton("write", whole, data));
  if (tokens.length > 0) show(tokens.length - 1);
  return whole;
}

function moveFocus(event, chips) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const at = chips.indexOf(document.activeElement);
  if (by === undefined || at < 0) return;
  event.preventDefault();
  chips[at].tabIndex = -1;
  const next = chips[Math.max(0, Math.min(chips.length - 1, at + by))];
  next.tabIndex = 0;
  next.focus();
}
