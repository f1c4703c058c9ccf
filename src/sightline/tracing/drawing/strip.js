// The sentence: its tokens (or words) in a row. Pointing at one follows it everywhere; arrows walk, Enter pins.

import { element, fill } from "./dom.js";
import { gazeOf, shares } from "./gaze.js";
import { exact, short } from "./numbers.js";
import { colourOf, paint } from "./scale.js";
import { clipped, fromTheRight, quoted } from "./texts.js";
import { view } from "./view.js";

const GAP = 4; // between rows, as in theme.css
const NAMES = {
  transformer: { source: "Read", target: "Written" },
  gpt: { source: "Prompt", target: "Written" },
  bert: { source: "Read" },
};

/** Draw the strips of a trace. */
export const strips = view("sentence", (trace, store) => {
  const rows = Object.entries(NAMES[trace.family])
    .filter(([passage]) => trace[passage].tokens.length > 0)
    .map(([passage, name]) => strip(trace, store, passage, name));
  return { node: element("div", { class: "strips" }, ...rows), data: () => numbers(trace, store.state) };
});

/** The tokens (or words) of each strip, and how much each is lit. */
function numbers(trace, state) {
  const seen = seenShares(trace, gazeOf(trace, state));
  const passages = Object.keys(NAMES[trace.family]).map((passage) => {
    const units = trace.units(passage, state.unit).map((unit) => {
      const share = seen(trace.same({ passage, place: unit.tokens[0] }), state.unit);
      return { text: unit.text, special: unit.special, weight: share === null ? null : exact(share) };
    });
    return [passage, units];
  });
  return { heads: state.heads.map((head) => trace.title(head)), unit: state.unit, step: state.step, ...Object.fromEntries(passages) };
}

function strip(trace, store, passage, name) {
  const list = element("div", {
    class: "strip",
    role: "group",
    "aria-label": `${name}: tokens`,
    dir: fromTheRight(trace[passage].text) ? "rtl" : "ltr",
    "data-passage": passage,
  });
  let chips = [];
  store.watch(["unit"], ({ unit }) => {
    chips = chipsOf(trace.units(passage, unit));
    if (chips.length > 0) chips[0].tabIndex = 0;
    fill(list, ...chips);
  });
  store.watch(["unit", "heads", "pointed", "pinned", "met", "step", "palette"], () =>
    light(trace, store, passage, chips),
  );
  follow(trace, store, passage, list);
  list.addEventListener("keydown", (event) => walk(event, chips));
  return element("div", { class: "strip-row" }, element("span", { class: "strip-name" }, name), list);
}

/** Make the chips of all units, copies of one, which is faster where there are hundreds. */
function chipsOf(units) {
  const blank = element("button", { type: "button", class: "token", tabindex: -1, "aria-pressed": "false", dir: "auto" });
  return units.map(({ text, special }, place) => {
    const chip = blank.cloneNode();
    if (special) chip.className = "token special";
    chip.dataset.place = place;
    chip.textContent = clipped(text);
    return chip;
  });
}

/** Follow pointer, focus and clicks: one listener for all chips, as there may be hundreds. */
function follow(trace, store, passage, list) {
  const on = (names, act) => {
    const listener = ({ target }) => {
      if (target === list) return;
      const unit = trace.units(passage, store.state.unit)[target.dataset.place];
      act(trace.same({ passage, place: unit.tokens[0] }), target, unit);
    };
    for (const name of names) list.addEventListener(name, listener, true);
  };
  on(["mouseenter", "focus"], (token, node, { text }) => {
    const { share } = node; // as it stands before the pointer changes whose look is shown
    node.title = share === null || share === undefined ? quoted(text) : `${quoted(text)}: ${short(share)}`;
    store.set({ pointed: token, met: null });
  });
  on(["mouseleave", "blur"], () => store.set({ pointed: null }));
  on(["click"], (token) => {
    const { pinned } = store.state;
    const again = pinned !== null && pinned.passage === token.passage && pinned.place === token.place;
    store.set({ pinned: again ? null : token });
  });
}

function light(trace, store, passage, chips) {
  const { state } = store;
  const gaze = gazeOf(trace, state);
  const units = trace.units(passage, state.unit);
  const token = state.pointed ?? state.pinned;
  const seen = seenShares(trace, gaze);
  const writing = passage === "target" ? trace.unitOf("target", state.step, state.unit) : null;
  const marked = (other) => {
    const place = trace.placeIn(passage, other);
    return place === null ? null : trace.unitOf(passage, place, state.unit);
  };
  const [pointed, met, pinned] = [marked(token), marked(state.met), marked(state.pinned)];
  let [best, most] = [null, 0];
  chips.forEach((node, place) => {
    const share = seen(trace.same({ passage, place: units[place].tokens[0] }), state.unit);
    tint(node, share === null || share < 0.004 ? null : colourOf(state.palette.weight, share));
    node.classList.toggle("looks", pointed === place);
    node.classList.toggle("looked-at", met === place);
    node.classList.toggle("writing", writing === place);
    node.classList.toggle("later", writing !== null && place > writing);
    if ((node.ariaPressed === "true") !== (pinned === place)) node.ariaPressed = String(pinned === place);
    if (share > most) [best, most] = [place, share];
    node.share = share;
  });
  const shown = writing ?? best;
  if (shown !== null && state.pointed === null) store.afterwards(chips[0], () => keepInView(chips[shown]));
}

/** Colour a chip, if that changes anything: there may be hundreds. */
function tint(chip, colour) {
  if (chip.tint === colour) return;
  chip.tint = colour;
  paint(chip, colour);
}

/** Scroll a strip of many rows to the token that matters, the row before it on top, and nothing else. */
function keepInView(chip) {
  const list = chip.parentElement;
  if (list === null) return; // drawn anew meanwhile
  const top = chip.offsetTop - list.scrollTop;
  if (top < 0 || top + chip.offsetHeight > list.clientHeight) list.scrollTop = chip.offsetTop - chip.offsetHeight - 2 * GAP;
}

/** Return a function that tells how much a token (by its one name) is lit. */
function seenShares(trace, gaze) {
  const passage = gaze.row !== null ? gaze.columnPassage : gaze.rowPassage;
  const lit = shares(gaze, passage);
  return (token, unit) => {
    const place = lit === null ? null : trace.placeIn(passage, token);
    return place === null ? null : lit[trace.unitOf(passage, place, unit)];
  };
}

function walk(event, chips) {
  const at = chips.indexOf(document.activeElement);
  const mirrored = event.currentTarget.dir === "rtl" ? -1 : 1;
  const moves = { ArrowRight: mirrored, ArrowLeft: -mirrored, Home: -at, End: chips.length - 1 - at };
  if (at < 0 || !(event.key in moves)) return;
  event.preventDefault();
  event.stopPropagation();
  const next = Math.max(0, Math.min(chips.length - 1, at + moves[event.key]));
  chips[at].tabIndex = -1;
  chips[next].tabIndex = 0;
  chips[next].focus();
}
