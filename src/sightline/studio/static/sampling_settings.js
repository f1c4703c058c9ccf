// The sampling settings of Write, kept in the URL.

import { element } from "/drawing/dom.js";

const KNOBS = [
  { name: "temperature", title: "Temperature", about: "Sampling temperature: lower is more predictable, higher more varied; 0 is greedy.", type: "range", min: 0, max: 2, step: 0.1, initial: "0.8" },
  { name: "top_k", title: "Top k", about: "Sample from the k most likely tokens; 0 for all.", type: "number", min: 0, max: 1000, step: 1, initial: "0" },
  { name: "top_p", title: "Top p", about: "Sample from the smallest set of tokens with this total probability.", type: "range", min: 0.05, max: 1, step: 0.05, initial: "1" },
  { name: "seed", title: "Seed", about: "The same seed gives the same text; empty for a new one each time.", type: "number", min: 0, step: 1, initial: "" },
  { name: "max_tokens", title: "Tokens", about: "Maximum number of new tokens.", type: "number", min: 1, max: 512, step: 1, initial: "24" },
];

/** Create the settings: {node, values()}, where values() are fields of a request. */
export function settings(params) {
  const inputs = KNOBS.map(({ name, title, about, type, initial, ...range }) => {
    const input = element("input", { type, ...range, id: `knob-${name}`, title: about, value: params.get(name) ?? initial });
    const said = element("output", { class: "number", for: input.id }, type === "range" ? input.value : "");
    input.addEventListener("input", () => {
      if (type === "range") said.textContent = input.value;
      params.set({ [name]: input.value === initial ? null : input.value });
    });
    return { name, input, node: element("div", { class: "knob" }, element("label", { for: input.id, title: about }, title), input, said) };
  });
  return { node: element("div", { class: "knobs" }, ...inputs.map(({ node }) => node)), values: () => valuesOf(inputs) };
}

function valuesOf(inputs) {
  const given = inputs.filter(({ input }) => input.value !== "").map(({ name, input }) => [name, Number(input.value)]);
  const { temperature, max_tokens, ...drawn } = Object.fromEntries(given);
  return temperature === 0 ? { temperature, max_tokens } : { temperature, max_tokens, ...drawn };
}
