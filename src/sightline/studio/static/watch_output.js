// The output of the model, in one line.

import { element } from "/drawing/dom.js";
import { short } from "/drawing/numbers.js";
import { clip } from "/drawing/token_text.js";

const MAX_GIVEN = 160; // characters of the prompt

/** Return the nodes of that line; if heads are ablated, the original output comes first. */
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
export function outputNodes(trace) {
  const { source, steps, task, target } = trace;
  if (task === "language-model") return [element("bdi", { class: "given" }, shorten(source.text)), element("bdi", { class: "output-text" }, target.text)];
  if (trace.family !== "bert") return [element("bdi", { class: "output-text" }, target.text)];
  if (steps.length === 0) return [element("bdi", { class: "given" }, source.text)];
  if (task === "masked-language-model") return fillMasks(source, steps);
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
