// What a model reads beside a text: what was said before it, or the second text of a pair.

import { button, element } from "/drawing/dom.js";

const KINDS = { chat: earlier, classification: secondText };

/** Return what the address knows of it: `within` and `below` a form, and `wishes()`, which the address remembers. */
export function beside(model, place, submit) {
  const { within = null, below = null, wishes } = KINDS[model.task]?.(place, submit) ?? {};
  return { within, below, wishes: () => ({ before: null, second: null, ...wishes?.() }) };
}

/** Return a text with what stands beside it, as the server wants it. */
export function inputOf({ text, before, second }) {
  if (before !== null) return [...turnsIn(before), text];
  return second === null ? text : [text, second];
}

/** What was said before: the model reads it too, until one asks it not to. */
function earlier(place, submit) {
  let turns = turnsIn(place.get("before"));
  if (turns.length === 0) return {};
  const node = element("p", { class: "earlier" }, "Said before: ", ...turns.map((turn) => element("bdi", { class: "token" }, turn)),
    button("Leave it out", () => {
      turns = [];
      node.remove();
      submit();
    }));
  return { below: node, wishes: () => ({ before: turns.length > 0 ? JSON.stringify(turns) : null }) };
}

/** The turns that an address remembers; whatever else stands there is no conversation. */
export function turnsIn(text) {
  try {
    const turns = JSON.parse(text ?? "[]");
    return Array.isArray(turns) && turns.every((turn) => typeof turn === "string") ? turns : [];
  } catch {
    return [];
  }
}

/** The second text of a pair. */
function secondText(place) {
  if (place.get("second") === null) return {};
  const input = element("input", { type: "text", "aria-label": "Second text", placeholder: "Second text; empty for none", autocomplete: "off", spellcheck: "false", dir: "auto" });
  input.value = place.get("second");
  return { within: input, wishes: () => ({ second: input.value === "" ? null : input.value }) };
}
