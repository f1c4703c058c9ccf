// The way through a model as a list of stages, told as this model is: both towers or one, norms before or after,
// positions added or turned.

import { attention } from "./walk_attention.js";
import { again, beginning } from "./walk_beginning.js";
import { deciding, ending } from "./walk_ending.js";
import { feedForward, norm } from "./walk_sublayers.js";

/** Return the stages of a trace: {id, point, tower, sub, box, title, says, formula, code, names, weights, show, sum}. */
export function pathOf(trace) {
  const towers = { transformer: ["encoder", "decoder"], bert: ["encoder"], gpt: ["decoder"] }[trace.family];
  return towers.flatMap((tower, at) => [
    ...placed(tower, "embedding", at === 0 ? beginning(trace, tower) : again(trace)),
    ...layer(trace, tower),
    ...placed(tower, "end", ending(trace, tower)),
    ...placed(tower, "head", at === towers.length - 1 ? deciding(trace) : []),
  ]);
}

function layer({ model, family }, tower) {
  const post = model.norm_order === "post";
  const subs = [
    ["self_attention", attention(tower === "encoder" ? "both" : "back", post)],
    ...(family === "transformer" && tower === "decoder" ? [["cross_attention", attention("cross", post)]] : []),
    ["feed_forward", feedForward(model, post)],
  ];
  return subs.flatMap(([sub, stages]) => placed(tower, sub, post ? [...stages, norm(post)] : [norm(post), ...stages]));
}

function placed(tower, sub, stages) {
  return stages.map((stage) => ({ ...stage, point: stage.id, id: `${tower}.${sub}.${stage.id}`, tower, sub, box: `${tower}.${boxOf(sub, stage.id)}` }));
}

/** The box of the map that a stage is in. */
function boxOf(sub, id) {
  if (sub === "embedding") return id === "positions" ? id : sub;
  if (sub === "head") return id === "logits" ? "linear" : sub;
  return id === "norm" || id === "residual" ? `${sub}.${id}` : sub;
}
