// What came out, in one line.

import { element } from "/drawing/dom.js";
import { short } from "/drawing/numbers.js";
import { clipped } from "/drawing/texts.js";

const LONGEST = 160; // letters of what was given

/** Return the nodes of that line; where heads are silent, what it was with them comes first. */
export function outcome(trace, { whole, without }) {
  if (without.length === 0) return withNumber(trace);
  const turn = `→ without ${without.length === 1 ? "one head" : `${without.length} heads`} `;
  const part = (one, name) => element("span", { "data-output": name }, ...withNumber(one));
  return [part(whole, "before"), element("span", { class: "turn" }, turn), part(trace, "after")];
}

function withNumber(trace) {
  const all = trace.steps.reduce((sum, { log_probability: one }) => sum + one, 0);
  const number = trace.steps.length === 0 ? null : element("span", { class: "number", title: "The probabilities of all steps multiplied" }, ` probability ${short(Math.exp(all))} `);
  return [...said(trace), number];
}

/** Return what a trace says as nodes, what was given in a soft colour. */
export function said(trace) {
  const { source, steps, task, target } = trace;
  if (task === "language-model") return [element("bdi", { class: "given" }, ending(source.text)), element("bdi", { class: "says" }, target.text)];
  if (trace.family !== "bert") return [element("bdi", { class: "says" }, target.text)];
  if (steps.length === 0) return [element("bdi", { class: "given" }, source.text)];
  if (task === "masked-language-model") return filled(source, steps);
  return steps.map(({ candidates, chosen }) => element("b", { class: "says" }, `${clipped(candidates[chosen].text)} `));
}

/** The end of a long text: all of it stands below, token by token. */
function ending(text) {
  return text.length > 2 * LONGEST ? `… ${text.slice(-LONGEST)}` : text;
}

/** The text with the likeliest words in its gaps. */
function filled({ text, tokens }, steps) {
  let from = 0;
  const parts = steps.flatMap(({ row, candidates, chosen }) => {
    const { start, end } = tokens[row];
    const before = text.slice(from, start);
    from = end;
    return [element("bdi", { class: "given" }, before), element("bdi", { class: "says" }, candidates[chosen].text)];
  });
  return [...parts, element("bdi", { class: "given" }, text.slice(from))];
}
