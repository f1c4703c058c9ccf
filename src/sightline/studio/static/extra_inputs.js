// Inputs besides the text: earlier turns of a conversation, or the second text of a pair.

import { button, element } from "/drawing/dom.js";

const KINDS = { chat: earlierTurns, classification: secondText };

/** Return the elements for the form (`within` it and `below` it) and `values()`, the parameters for the URL. */
export function extraInputs(model, params, submit) {
  const { within = null, below = null, values } = KINDS[model.task]?.(params, submit) ?? {};
  return { within, below, values: () => ({ before: null, second: null, ...values?.() }) };
}

/** Return the `input` of a request: the text, the turns of a conversation, or a pair. */
export function requestInput({ text, before, second }) {
  if (before !== null) return [...parseTurns(before), text];
  return second === null ? text : [text, second];
}

/** Earlier turns, which the model reads too unless they are removed. */
function earlierTurns(params, submit) {
  let turns = parseTurns(params.get("before"));
  if (turns.length === 0) return {};
  const node = element("p", { class: "earlier" }, "Earlier turns: ", ...turns.map((turn) => element("bdi", { class: "token" }, turn)),
    button("Remove", () => {
      turns = [];
      node.remove();
      submit();
    }));
  return { below: node, values: () => ({ before: turns.length > 0 ? JSON.stringify(turns) : null }) };
}

/** Parse the turns in a URL; anything else gives none. */
export function parseTurns(text) {
  try {
    const turns = JSON.parse(text ?? "[]");
    return Array.isArray(turns) && turns.every((turn) => typeof turn === "string") ? turns : [];
  } catch {
    return [];
  }
}

/** The second text of a pair. */
function secondText(params) {
  if (params.get("second") === null) return {};
  const input = element("input", { type: "text", "aria-label": "Second text", placeholder: "Second text (optional)", autocomplete: "off", spellcheck: "false", dir: "auto" });
  input.value = params.get("second");
  return { within: input, values: () => ({ second: input.value === "" ? null : input.value }) };
}
