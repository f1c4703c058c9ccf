// The tokens at the top: selectable, and tinted by the attention of the selected token to each.

import { element, fill } from "/drawing/dom.js";
import { colorOf, paint } from "/drawing/color_scale.js";
import { clip, isRightToLeft } from "/drawing/token_text.js";

const NAMES = { transformer: { source: "Source", inputs: "Decoder" }, gpt: { inputs: "Input" }, bert: { source: "Input" } };

/** Draw the strips of a trace; return {node, highlight(marks), point}. `choose(sequence, index)` is called on click. */
export function strips(trace, { choose, point }) {
  const lists = Object.entries(NAMES[trace.family]).map(([sequence, name]) => {
    const list = element("div", { class: "strip", role: "group", "aria-label": `${name}: tokens`, dir: isRightToLeft(trace[sequence].text) ? "rtl" : "ltr" });
    const chips = trace[sequence].tokens.map(({ text, special }, index) => element("button", { type: "button", class: special ? "token special" : "token", "data-index": index, "aria-pressed": "false", tabindex: -1, dir: "auto" }, clip(text)));
    fill(list, ...chips);
    const on = (event, act) => list.addEventListener(event, ({ target }) => target !== list && act(Number(target.dataset.index)), true);
    on("click", (index) => choose(sequence, index));
    on("mouseenter", (index) => point(sequence, index));
    on("mouseleave", () => point(null, null));
    return { sequence, list, chips, node: element("div", { class: "strip-row" }, element("span", { class: "strip-name" }, name), list) };
  });
  return {
    node: element("div", { class: "strips" }, ...lists.map(({ node }) => node)),
    /** Highlight the selection: {chosen: {source, inputs}, active, shares: {sequence, weights} or null, palette}. */
    highlight: ({ chosen, active, shares, palette }) => lists.forEach(({ sequence, list, chips }) => {
      const within = list.contains(document.activeElement);
      chips.forEach((chip, index) => {
        const lit = chosen[sequence] === index;
        chip.classList.toggle("is-query", lit && sequence === active);
        if ((chip.ariaPressed === "true") !== lit) chip.ariaPressed = String(lit);
        chip.tabIndex = lit ? 0 : -1;
        const share = shares?.sequence === sequence ? shares.weights[index] : 0;
        const color = share < 0.004 ? null : colorOf(palette.weight, share);
        if (chip.tint !== color) paint(chip, (chip.tint = color));
        if (lit) keepInView(list, chip);
        if (lit && within) chip.focus({ preventScroll: true });
      });
    }),
    point: (sequence, index) => lists.forEach((one) => one.chips.forEach((chip, at) => chip.classList.toggle("is-key", one.sequence === sequence && at === index))),
  };
}

/** Scroll only the strip, so that a token is visible. */
function keepInView(list, chip) {
  const left = chip.offsetLeft - list.scrollLeft;
  if (left < 0 || left + chip.offsetWidth > list.clientWidth) list.scrollLeft = chip.offsetLeft - list.clientWidth / 3;
  const top = chip.offsetTop - list.scrollTop;
  if (top < 0 || top + chip.offsetHeight > list.clientHeight) list.scrollTop = chip.offsetTop - chip.offsetHeight - 8;
}
