// The tokens (or words) of the text in a row. Hovering highlights one in all views; arrow keys move, Enter pins.

import { element, fill } from "./dom.js";
import { selectionOf, shares } from "./store.js";
import { clip, exact, isRightToLeft, quote, short } from "./text.js";
import { colorOf, paint } from "./theme.js";
import { view } from "./view.js";

const GAP = 4; // between rows, as in theme.css
const SOURCES = { Seq2Seq: "Source", CausalLM: "Prompt" }; // what the source is called, by the interface of the model

/** Draw the strips of a trace. */
export const tokenStrips = view("sentence", (trace, store) => {
  const names = { source: SOURCES[trace.interface] ?? "Input", target: "Output" };
  const rows = sequencesOf(trace)
    .filter((sequence) => trace[sequence].tokens.length > 0)
    .map((sequence) => strip(trace, store, sequence, names[sequence]));
  return { node: element("div", { class: "strips" }, ...rows), data: () => numbers(trace, store.state) };
});

function sequencesOf({ predicts }) {
  return predicts === "tokens" ? ["source", "target"] : ["source"];
}

/** The tokens (or words) of each strip with their weights. */
function numbers(trace, state) {
  const weightOf = weightLookup(trace, selectionOf(trace, state));
  const sequences = sequencesOf(trace).map((sequence) => {
    const units = trace.units(sequence, state.unit).map((unit) => {
      const share = weightOf(trace.canonical({ sequence, index: unit.tokens[0] }), state.unit);
      return { text: unit.text, special: unit.special, weight: share === null ? null : exact(share) };
    });
    return [sequence, units];
  });
  return { heads: state.heads.map((head) => trace.title(head)), unit: state.unit, step: state.step, ...Object.fromEntries(sequences) };
}

function strip(trace, store, sequence, name) {
  const list = element("div", {
    class: "strip",
    role: "group",
    "aria-label": `${name}: tokens`,
    dir: isRightToLeft(trace[sequence].text) ? "rtl" : "ltr",
    "data-sequence": sequence,
  });
  let chips = [];
  store.watch(["unit"], ({ unit }) => {
    chips = chipsOf(trace.units(sequence, unit));
    if (chips.length > 0) chips[0].tabIndex = 0;
    fill(list, ...chips);
  });
  store.watch(["unit", "heads", "hovered", "pinned", "hoveredKey", "step", "palette"], () =>
    highlight(trace, store, sequence, chips),
  );
  follow(trace, store, sequence, list);
  list.addEventListener("keydown", (event) => moveFocus(event, chips));
  return element("div", { class: "strip-row" }, element("span", { class: "strip-name" }, name), list);
}

/** Create the chips of all units by cloning one, which is faster for hundreds. */
function chipsOf(units) {
  const blank = element("button", { type: "button", class: "token", tabindex: -1, "aria-pressed": "false", dir: "auto" });
  return units.map(({ text, special }, index) => {
    const chip = blank.cloneNode();
    if (special) chip.className = "token special";
    chip.dataset.index = index;
    chip.textContent = clip(text);
    return chip;
  });
}

/** Track pointer, focus and clicks; one listener for all chips, as there may be hundreds. */
function follow(trace, store, sequence, list) {
  const on = (names, act) => {
    const listener = ({ target }) => {
      if (target === list) return;
      const unit = trace.units(sequence, store.state.unit)[target.dataset.index];
      act(trace.canonical({ sequence, index: unit.tokens[0] }), target, unit);
    };
    for (const name of names) list.addEventListener(name, listener, true);
  };
  on(["mouseenter", "focus"], (token, node, { text }) => {
    const { share } = node; // before hovering changes the highlighted row
    node.title = share === null || share === undefined ? quote(text) : `${quote(text)}: ${short(share)}`;
    store.set({ hovered: token, hoveredKey: null });
  });
  on(["mouseleave", "blur"], () => store.set({ hovered: null }));
  on(["click"], (token) => {
    const { pinned } = store.state;
    const again = pinned !== null && pinned.sequence === token.sequence && pinned.index === token.index;
    store.set({ pinned: again ? null : token });
  });
}

function highlight(trace, store, sequence, chips) {
  const { state } = store;
  const selection = selectionOf(trace, state);
  const units = trace.units(sequence, state.unit);
  const token = state.hovered ?? state.pinned;
  const weightOf = weightLookup(trace, selection);
  const current = sequence === "target" ? trace.unitOf("target", state.step, state.unit) : null;
  const marked = (other) => {
    const index = trace.indexIn(sequence, other);
    return index === null ? null : trace.unitOf(sequence, index, state.unit);
  };
  const [hovered, hoveredKey, pinned] = [marked(token), marked(state.hoveredKey), marked(state.pinned)];
  let [best, most] = [null, 0];
  chips.forEach((node, index) => {
    const share = weightOf(trace.canonical({ sequence, index: units[index].tokens[0] }), state.unit);
    tint(node, share === null || share < 0.004 ? null : colorOf(state.palette.weight, share));
    node.classList.toggle("is-query", hovered === index);
    node.classList.toggle("is-key", hoveredKey === index);
    node.classList.toggle("current", current === index);
    node.classList.toggle("later", current !== null && index > current);
    if ((node.ariaPressed === "true") !== (pinned === index)) node.ariaPressed = String(pinned === index);
    if (share > most) [best, most] = [index, share];
    node.share = share;
  });
  const shown = current ?? best;
  if (shown !== null && state.hovered === null) store.beforeNextFrame(chips[0], () => keepInView(chips[shown]));
}

/** Color a chip if its color changes: there may be hundreds. */
function tint(chip, color) {
  if (chip.tint === color) return;
  chip.tint = color;
  paint(chip, color);
}

/** Scroll only the strip, so that a token is visible with one row above it. */
function keepInView(chip) {
  const list = chip.parentElement;
  if (list === null) return; // redrawn in the meantime
  const top = chip.offsetTop - list.scrollTop;
  if (top < 0 || top + chip.offsetHeight > list.clientHeight) list.scrollTop = chip.offsetTop - chip.offsetHeight - 2 * GAP;
}

/** Return a function that returns the highlighted weight of a token, given by its canonical position. */
function weightLookup(trace, selection) {
  const sequence = selection.row !== null ? selection.columnSequence : selection.rowSequence;
  const lit = shares(selection, sequence);
  return (token, unit) => {
    const index = lit === null ? null : trace.indexIn(sequence, token);
    return index === null ? null : lit[trace.unitOf(sequence, index, unit)];
  };
}

function moveFocus(event, chips) {
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
