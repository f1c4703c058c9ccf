// Knocking heads out: which ones are silent, and what became of the output without them.

import { button, element, fill, section } from "/drawing/dom.js";
import { exact, short, signed } from "/drawing/numbers.js";
import { saving } from "/drawing/saving.js";
import { colourOf, paint } from "/drawing/scale.js";
import { clipped } from "/drawing/texts.js";
import { said } from "./watch_outcome.js";

const same = (one, other) => one.name === other.name && one.head === other.head;
const isIn = (heads, head) => heads.some((one) => same(one, head));

/** Return the silent heads once the chosen ones have been knocked out, or put back if all of them are out. */
export function toggled({ heads, knocked: { without } }) {
  const others = without.filter((head) => !isIn(heads, head));
  return heads.every((head) => isIn(without, head)) ? others : [...others, ...heads];
}

/** Cross out the small pictures of silent heads. */
export function markSilent(host, { trace, knocked: { without } }) {
  const heads = trace.kinds.flatMap(({ layers }) => layers.flatMap(({ name }) => Array.from({ length: trace.nHeads(name) }, (_, head) => ({ name, head }))));
  host.querySelectorAll(".tile").forEach((tile, place) => tile.classList.toggle("silent", isIn(without, heads[place])));
}

/** Make the button that silences the chosen heads, or lets them speak again. */
export function knockButton(scope, { knock }) {
  const node = button("", () => knock(toggled(scope.state)), { title: "A head that is knocked out adds nothing: its mixture of values is zero (K)" });
  scope.watch(["heads", "knocked"], ({ heads, knocked: { without } }) => {
    const out = heads.every((head) => isIn(without, head));
    node.textContent = `${out ? "Put back" : "Knock out"}${heads.length === 1 ? "" : ` ${heads.length} heads`}`;
    node.ariaPressed = String(out);
  });
  return node;
}

/** Make the panel of what became of the output; it is there while a head is silent. */
export function silence(scope, { knock }) {
  const list = element("p", { class: "silent-heads" });
  const change = element("div", { "aria-live": "polite" });
  const node = section("silence", "Without these heads", "Their mixtures of values are zero all the while. What the model does then shows whether it needed them.", list, change, saving("knockout", change, () => numbers(scope.state)));
  scope.watch(["trace"], ({ trace, knocked: { without } }) => {
    node.hidden = without.length === 0;
    const back = without.map((head) => button(`${trace.title(head)} ✕`, () => knock(without.filter((one) => !same(one, head))), { class: "link", title: "Put it back" }));
    fill(list, ...back, button("Put all back", () => knock([]), { class: "link" }));
  });
  scope.watch(["trace", "palette"], (state) => fill(change, ...changes(scope, state)));
  scope.watch(["trace", "step"], ({ step }) => change.querySelectorAll("[data-step]").forEach((row) => row.classList.toggle("now", Number(row.dataset.step) === step)));
  return node;
}

/** What was written before and after, and how likely each token of the first output is now. */
function changes(scope, { trace, knocked: { whole, again }, palette }) {
  if (again === null || whole.steps.length === 0) return [];
  const after = probabilities(whole, again);
  const rows = whole.steps.map(({ log_probability: logarithm, candidates, chosen }, step) => row(scope, step, candidates[chosen].text, Math.exp(logarithm), after[step], palette.signed));
  const verdict = textOf(whole) === textOf(trace) ? "The output stays the same." : "The output is another one.";
  return [
    element("p", { class: "note" }, `${verdict} Below: how likely each token of the first output was, and is now.`),
    element("div", { class: "scroller shifts" }, element("table", {},
      element("thead", {}, element("tr", {}, ...["Token", "with", "without", "change"].map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows))),
  ];
}

/** The same as numbers, to be saved. */
function numbers({ trace, knocked: { whole, again, without } }) {
  const after = probabilities(whole, again);
  const tokens = whole.steps.map(({ log_probability: logarithm, candidates, chosen }, step) => ({ token: candidates[chosen].text, with: exact(Math.exp(logarithm)), without: after[step].probability && exact(after[step].probability) }));
  return { silent: without.map((head) => trace.title(head)), before: textOf(whole), after: textOf(trace), tokens };
}

function textOf(trace) {
  return said(trace).map((node) => node.textContent).join("");
}

function row(scope, step, text, before, { probability, least }, colours) {
  const known = probability !== null;
  const change = known ? probability - before : least - before;
  const cell = element("td", { class: "number" }, known ? signed(change) : "–");
  paint(cell, colourOf(colours, 0.5 + change / 2));
  return element("tr", { "data-step": step, on: { click: () => scope.set({ step: Math.min(step, scope.state.trace.steps.length - 1), playing: false }) } },
    element("th", { scope: "row", dir: "auto" }, clipped(text)), element("td", { class: "number" }, short(before)), element("td", { class: "number" }, known ? short(probability) : least > 0 ? `< ${short(least)}` : "–"), cell);
}

/** For each step the probability of what was chosen with all heads; null where it is below the `least` that is known. */
function probabilities(whole, again) {
  return whole.steps.map(({ candidates, chosen }, step) => {
    const now = again.steps[step];
    const found = now?.candidates.find(({ id }) => id === candidates[chosen].id);
    return found === undefined ? { probability: null, least: now?.candidates.at(-1).probability ?? 0 } : { probability: found.probability, least: 0 };
  });
}
