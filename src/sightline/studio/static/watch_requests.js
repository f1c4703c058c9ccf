// The /trace requests of Watch: the whole model, the same with ablated heads, and those scoring the original output.

import { requestInput } from "./extra_inputs.js";

const MAX_QUICK_COST = 2e8; // parameters times characters up to which every head is ablated without asking

/** Return the bodies of the requests to /trace for the values of the form. */
export function requestsFor(model, values, measured) {
  const { to, beam, length } = values;
  const given = { model: model.id, input: requestInput(values), format: "drawing", ...(to === null ? {} : { to }) };
  const generation = { ...(beam === null ? {} : { beam_size: Number(beam), hypotheses: Number(beam) > 1 }), ...(length === null ? {} : { max_tokens: Number(length) }) };
  const ablation = measured || model.parameters * [given.input].flat().join("").length < MAX_QUICK_COST;
  return {
    baseline: { ...given, ...generation, head_ablation: ablation },
    ablated: (heads) => ({ ...given, ...generation, ablate_heads: heads, head_ablation: ablation }),
    // Score the original output with ablated heads: forced on a generator; a Bert predicts the same positions anyway.
    forced: (baseline, heads) => ({ ...given, ablate_heads: heads, layers: [0], heads: [0], logit_lens: false, candidates: 100, ...(beam === null ? {} : { target: baseline.target.text }) }),
  };
}

/** Return heads as in a request: {attention: [numbers]}. */
export function groupByAttention(heads) {
  const found = {};
  for (const { name, head } of heads) (found[name] ??= []).push(head);
  return found;
}
