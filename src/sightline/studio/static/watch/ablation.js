// The output of the model in one line, and the ablation of selected heads: which ones are zeroed, and how the output changes.

import { button, element, fill, section } from "/page/dom.js";
import { saveButton } from "/page/export.js";
import { clip, exact, short, withSign } from "/page/text.js";
import { colorOf, paint } from "/page/theme.js";

const MAX_GIVEN = 160; // characters of the prompt
const same = (one, other) => one.name === other.name && one.head === other.head;
const isIn = (heads, head) => heads.some((one) => same(one, head));

/** Return the nodes of the output in one line; if heads are ablated, the original output comes first. */
export function outputLine(trace, { baseline, ablated }) {
  if (ablated.length === 0) return withNumber(trace);
  const change = `→ without ${ablated.length === 1 ? "one head" : `${ablated.length} heads`} `;
  const part = (one, name) => element("span", { "data-output": name }, ...withNumber(one));
  return [part(baseline, "before"), element("span", { class: "change" }, change), part(trace, "after")];
}

function withNumber(trace) {
  const all = trace.steps.reduce((sum, { log_probability: one }) => sum + one, 0);
  const number = trace.steps.length === 0 ? null : element("span", { class: "number", title: "Product of the probabilities of all steps" }, ` probability ${short(Math.exp(all))} `);
  return [...outputNodes(trace), number];
}

/** Return the output of a trace as nodes, with the prompt in a soft color. */
function outputNodes(trace) {
  const { source, steps, predicts, target } = trace;
  if (predicts === "tokens") return [...(trace.continuesSource ? [element("bdi", { class: "given" }, shorten(source.text))] : []), element("bdi", { class: "output-text" }, target.text)];
  if (steps.length === 0) return [element("bdi", { class: "given" }, source.text)];
  if (predicts === "masks") return fillMasks(source, steps);
  return steps.map(({ candidates, chosen }) => element("b", { class: "output-text" }, `${clip(candidates[chosen].text)} `));
}

/** The end of a long text; all of it is shown below, token by token. */
function shorten(text) {
  return text.length > 2 * MAX_GIVEN ? `… ${text.slice(-MAX_GIVEN)}` : text;
}

/** The text with the most likely tokens in place of its masks. */
function fillMasks({ text, tokens }, steps) {
  let from = 0;
  const parts = steps.flatMap(({ row, candidates, chosen }) => {
    const { start, end } = tokens[row];
    const before = text.slice(from, start);
    from = end;
    return [element("bdi", { class: "given" }, before), element("bdi", { class: "output-text" }, candidates[chosen].text)];
  });
  return [...parts, element("bdi", { class: "given" }, text.slice(from))];
}

/** Return the ablated heads after adding the selected ones, or after restoring them if all of them are ablated. */
export function toggleAblated({ heads, ablation: { ablated } }) {
  const others = ablated.filter((head) => !isIn(heads, head));
  return heads.every((head) => isIn(ablated, head)) ? others : [...others, ...heads];
}

/** Cross out the ablated heads in the grid. */
export function markAblated(host, { trace, ablation: { ablated } }) {
  const heads = trace.kinds.flatMap(({ layers }) => layers.flatMap(({ name }) => Array.from({ length: trace.nHeads(name) }, (_, head) => ({ name, head }))));
  host.querySelectorAll(".tile").forEach((tile, index) => tile.classList.toggle("ablated", isIn(ablated, heads[index])));
}

/** Create the button that ablates the selected heads, or restores them. */
export function ablateButton(scope, { ablate }) {
  const node = button("", () => ablate(toggleAblated(scope.state)), { title: "Zero the output of the selected heads (K)" });
  scope.watch(["heads", "ablation"], ({ heads, ablation: { ablated } }) => {
    const out = heads.every((head) => isIn(ablated, head));
    node.textContent = `${out ? "Restore" : "Ablate"}${heads.length === 1 ? "" : ` ${heads.length} heads`}`;
    node.ariaPressed = String(out);
  });
  return node;
}

/** Create the panel that compares the outputs; it is visible while a head is ablated. */
export function ablationPanel(scope, { ablate }) {
  const list = element("p", { class: "ablated-heads" });
  const change = element("div", { "aria-live": "polite" });
  const node = section("ablation", "Ablated heads", "The output of these heads is zeroed at every step. Compare the outputs to see whether the model needs them.", list, change, saveButton("ablation", change, () => numbers(scope.state)));
  scope.watch(["trace"], ({ trace, ablation: { ablated } }) => {
    node.hidden = ablated.length === 0;
    const back = ablated.map((head) => button(`${trace.title(head)} ✕`, () => ablate(ablated.filter((one) => !same(one, head))), { class: "link", title: "Restore this head" }));
    fill(list, ...back, button("Restore all", () => ablate([]), { class: "link" }));
  });
  scope.watch(["trace", "palette"], (state) => fill(change, ...changes(scope, state)));
  scope.watch(["trace", "step"], ({ step }) => change.querySelectorAll("[data-step]").forEach((row) => row.classList.toggle("now", Number(row.dataset.step) === step)));
  return node;
}

/** The outputs before and after, and the probability of each token of the original output with and without the heads. */
function changes(scope, { trace, ablation: { baseline, forced }, palette }) {
  if (forced === null || baseline.steps.length === 0) return [];
  const after = probabilities(baseline, forced);
  const rows = baseline.steps.map(({ log_probability: logarithm, candidates, chosen }, step) => row(scope, step, candidates[chosen].text, Math.exp(logarithm), after[step], palette.signed));
  const verdict = textOf(baseline) === textOf(trace) ? "The output does not change." : "The output changes.";
  return [
    element("p", { class: "note" }, `${verdict} Probability of each token of the original output, with and without the ablated heads:`),
    element("div", { class: "scroller probability-changes" }, element("table", {},
      element("thead", {}, element("tr", {}, ...["Token", "with", "without", "change"].map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows))),
  ];
}

/** The same as numbers, for the JSON file. */
function numbers({ trace, ablation: { baseline, forced, ablated } }) {
  const after = probabilities(baseline, forced);
  const tokens = baseline.steps.map(({ log_probability: logarithm, candidates, chosen }, step) => ({ token: candidates[chosen].text, with: exact(Math.exp(logarithm)), without: after[step].probability && exact(after[step].probability) }));
  return { ablated_heads: ablated.map((head) => trace.title(head)), before: textOf(baseline), after: textOf(trace), tokens };
}

function textOf(trace) {
  return outputNodes(trace).map((node) => node.textContent).join("");
}

function row(scope, step, text, before, { probability, least }, colors) {
  const known = probability !== null;
  const change = known ? probability - before : least - before;
  const cell = element("td", { class: "number" }, known ? withSign(change) : "–");
  paint(cell, colorOf(colors, 0.5 + change / 2));
  return element("tr", { "data-step": step, on: { click: () => scope.set({ step: Math.min(step, scope.state.trace.steps.length - 1), playing: false }) } },
    element("th", { scope: "row", dir: "auto" }, clip(text)), element("td", { class: "number" }, short(before)), element("td", { class: "number" }, known ? short(probability) : least > 0 ? `< ${short(least)}` : "–"), cell);
}

/** For each step, the probability of the token chosen with all heads; null if it is below `least`, the smallest known one. */
function probabilities(baseline, forced) {
  return baseline.steps.map(({ candidates, chosen }, step) => {
    const now = forced.steps[step];
    const found = now?.candidates.find(({ id }) => id === candidates[chosen].id);
    return found === undefined ? { probability: null, least: now?.candidates.at(-1).probability ?? 0 } : { probability: found.probability, least: 0 };
  });
}
