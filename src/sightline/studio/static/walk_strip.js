// The sentence on top: its tokens can be chosen and pointed at, and are tinted by how much the chosen one looks at each.

import { element, fill } from "/drawing/dom.js";
import { colourOf, paint } from "/drawing/scale.js";
import { clipped, fromTheRight } from "/drawing/texts.js";

const NAMES = { transformer: { source: "Read", inputs: "Decoder" }, gpt: { inputs: "Read" }, bert: { source: "Read" } };

/** Draw the strips of a trace; return {node, light(marks)} and `point`. `choose(passage, place)` hears clicks. */
export function strips(trace, { choose, point }) {
  const lists = Object.entries(NAMES[trace.family]).map(([passage, name]) => {
    const list = element("div", { class: "strip", role: "group", "aria-label": `${name}: tokens`, dir: fromTheRight(trace[passage].text) ? "rtl" : "ltr" });
    const chips = trace[passage].tokens.map(({ text, special }, place) => element("button", { type: "button", class: special ? "token special" : "token", "data-place": place, "aria-pressed": "false", tabindex: -1, dir: "auto" }, clipped(text)));
    fill(list, ...chips);
    const on = (event, act) => list.addEventListener(event, ({ target }) => target !== list && act(Number(target.dataset.place)), true);
    on("click", (place) => choose(passage, place));
    on("mouseenter", (place) => point(passage, place));
    on("mouseleave", () => point(null, null));
    return { passage, list, chips, node: element("div", { class: "strip-row" }, element("span", { class: "strip-name" }, name), list) };
  });
  return {
    node: element("div", { class: "strips" }, ...lists.map(({ node }) => node)),
    /** Light what is chosen: {chosen: {source, inputs}, active, shares: {passage, weights} or null, palette}. */
    light: ({ chosen, active, shares, palette }) => lists.forEach(({ passage, list, chips }) => {
      const within = list.contains(document.activeElement);
      chips.forEach((chip, place) => {
        const lit = chosen[passage] === place;
        chip.classList.toggle("looks", lit && passage === active);
        if ((chip.ariaPressed === "true") !== lit) chip.ariaPressed = String(lit);
        chip.tabIndex = lit ? 0 : -1;
        const share = shares?.passage === passage ? shares.weights[place] : 0;
        const colour = share < 0.004 ? null : colourOf(palette.weight, share);
        if (chip.tint !== colour) paint(chip, (chip.tint = colour));
        if (lit) keepInView(list, chip);
        if (lit && within) chip.focus({ preventScroll: true });
      });
    }),
    point: (passage, place) => lists.forEach((one) => one.chips.forEach((chip, at) => chip.classList.toggle("looked-at", one.passage === passage && at === place))),
  };
}

/** Scroll a strip to a token, and nothing else. */
function keepInView(list, chip) {
  const left = chip.offsetLeft - list.scrollLeft;
  if (left < 0 || left + chip.offsetWidth > list.clientWidth) list.scrollLeft = chip.offsetLeft - list.clientWidth / 3;
  const top = chip.offsetTop - list.scrollTop;
  if (top < 0 || top + chip.offsetHeight > list.clientHeight) list.scrollTop = chip.offsetTop - chip.offsetHeight - 8;
}
