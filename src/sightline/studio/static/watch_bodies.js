// What the server is asked for: the whole model at work, the same without some heads, and what these did to the output.

import { inputOf } from "./beside.js";

const QUICK = 2e8; // parameters times letters up to which the worth of every head is measured at once

/** Return the bodies of requests to /trace for what the form says. */
export function bodiesFor(model, wishes, measured) {
  const { to, beam, length } = wishes;
  const given = { model: model.id, input: inputOf(wishes), format: "drawing", ...(to === null ? {} : { to }) };
  const written = { ...(beam === null ? {} : { beam: Number(beam), hypotheses: Number(beam) > 1 }), ...(length === null ? {} : { max_tokens: Number(length) }) };
  const worth = measured || model.parameters * [given.input].flat().join("").length < QUICK;
  return {
    whole: { ...given, ...written, knockouts: worth },
    without: (silent) => ({ ...given, ...written, knock_out: silent, knockouts: worth }),
    // The same output once more: a model that writes is given it, one that reads decides the same places anyway.
    again: (whole, silent) => ({ ...given, knock_out: silent, layers: [0], heads: [0], readout: false, candidates: 100, ...(beam === null ? {} : { target: whole.target.text }) }),
  };
}

/** Return heads as the server names them: {attention: [numbers]}. */
export function byAttention(heads) {
  const found = {};
  for (const { name, head } of heads) (found[name] ??= []).push(head);
  return found;
}
