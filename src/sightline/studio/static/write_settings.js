// How the next token is drawn: the settings that Write sends along, remembered by the address.

import { element } from "/drawing/dom.js";

const KNOBS = [
  { name: "temperature", title: "Temperature", about: "Low: the likeliest words. High: bolder ones. 0 leaves nothing to chance.", type: "range", min: 0, max: 2, step: 0.1, usual: "0.8" },
  { name: "top_k", title: "Top k", about: "Draw from so many of the likeliest tokens; 0 for all.", type: "number", min: 0, max: 1000, step: 1, usual: "0" },
  { name: "top_p", title: "Top p", about: "Draw from the fewest tokens that have this probability together.", type: "range", min: 0.05, max: 1, step: 0.05, usual: "1" },
  { name: "seed", title: "Seed", about: "The same number gives the same text; empty for a new one each time.", type: "number", min: 0, step: 1, usual: "" },
  { name: "max_tokens", title: "Tokens", about: "How many are written at most.", type: "number", min: 1, max: 512, step: 1, usual: "24" },
];

/** Make the settings: {node, values()}; values are those of a request. */
export function settings(place) {
  const inputs = KNOBS.map(({ name, title, about, type, usual, ...range }) => {
    const input = element("input", { type, ...range, id: `knob-${name}`, title: about, value: place.get(name) ?? usual });
    const said = element("output", { class: "number", for: input.id }, type === "range" ? input.value : "");
    input.addEventListener("input", () => {
      if (type === "range") said.textContent = input.value;
      place.set({ [name]: input.value === usual ? null : input.value });
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
