// The list of stages for a model's architecture: one tower or two, pre- or post-norm, added or rotary positions.

import { attention } from "./walk_attention.js";
import { decoderInputStages, embeddingStages } from "./walk_embedding.js";
import { predictionStages, stackStages } from "./walk_output.js";
import { feedForward, norm } from "./walk_sublayers.js";

/** Return the stages of a trace: {id, point, tower, sub, box, title, explanation, formula, code, names, weights, show, sum}. */
export function pathOf(trace) {
  const towers = { transformer: ["encoder", "decoder"], bert: ["encoder"], gpt: ["decoder"] }[trace.family];
  return towers.flatMap((tower, at) => [
    ...placed(tower, "embedding", at === 0 ? embeddingStages(trace, tower) : decoderInputStages(trace)),
    ...layer(trace, tower),
    ...placed(tower, "end", stackStages(trace, tower)),
    ...placed(tower, "head", at === towers.length - 1 ? predictionStages(trace) : []),
  ]);
}

function layer({ model, family }, tower) {
  const post = !model.pre_norm;
  const subs = [
    ["self_attention", attention(tower === "encoder" ? "bidirectional" : "causal", post)],
    ...(family === "transformer" && tower === "decoder" ? [["cross_attention", attention("cross", post)]] : []),
    ["feed_forward", feedForward(model, post)],
  ];
  return subs.flatMap(([sub, stages]) => placed(tower, sub, post ? [...stages, norm(post)] : [norm(post), ...stages]));
}

function placed(tower, sub, stages) {
  return stages.map((stage) => ({ ...stage, point: stage.id, id: `${tower}.${sub}.${stage.id}`, tower, sub, box: `${tower}.${boxOf(sub, stage.id)}` }));
}

/** The box of the diagram that a stage is in. */
function boxOf(sub, id) {
  if (sub === "embedding") return id === "positions" ? id : sub;
  if (sub === "head") return id === "logits" ? "linear" : sub;
  return id === "norm" || id === "residual" ? `${sub}.${id}` : sub;
}
