// The stages around every sublayer, its sum and its norm, and those of the feed-forward net.

import { short } from "/drawing/numbers.js";
import { quoted } from "/drawing/texts.js";
import { inside, linear, linearSum, needs, normed, rowOf } from "./walk_sums.js";

const LAYERS = "model/layers.py";
const BENDS = {
  relu: ["max(0, a)", "everything negative becomes 0"],
  gelu: ["gelu(a)", "what is clearly negative becomes nearly 0"],
  gelu_tanh: ["gelu(a)", "what is clearly negative becomes nearly 0"],
  silu: ["a · sigmoid(a)", "what is clearly negative becomes nearly 0"],
  swiglu: ["silu(gate) · a", "a second map, the gate, says how much of each number passes"],
};

/** Return the stages of the feed-forward net. */
export function feedForward(model, post) {
  const [bend, does] = BENDS[model.activation] ?? BENDS.relu;
  return [
    {
      id: "hidden", title: "Feed-forward: widen and bend", code: [["FeedForward.forward", LAYERS]],
      says: `Each token is now treated by itself: a matrix widens its vector, and ${does}. Many see here the place where a model keeps what it knows.`,
      formula: `a = x W₁\nhidden = ${bend}`,
      names: (c) => [c.reads, `${c.p}.hidden`],
      weights: (c) => [...needs(c, c.module("widen"), c.j), ...(model.activation === "swiglu" ? needs(c, c.module("gate"), c.j) : [])],
      show: (c) => [c.full(c.reads, "x", "residual"), "→", c.full("hidden", "hidden", "value")],
      sum: (c) => {
        const x = rowOf(c.M(c.reads), c.row);
        const hidden = rowOf(c.at("hidden"), c.row);
        const made = linear(c, c.module("widen"), c.j, x, "a");
        const gate = model.activation === "swiglu" ? linear(c, c.module("gate"), c.j, x, "gate") : null;
        const quiet = hidden.reduce((count, value) => count + (value === 0 ? 1 : 0), 0);
        return [`Number ${c.j} for ${quoted(c.rowNames[c.row])}:`, ...(made?.lines ?? []), ...(gate?.lines ?? []), `${bend} = ${short(hidden[c.j])}`,
          ...(model.activation === "relu" ? [`${quiet} of its ${hidden.length} numbers are 0 after the bend.`] : [])];
      },
    },
    {
      id: "output", title: "Feed-forward: narrow", code: [["FeedForward.forward", LAYERS]],
      says: "A second matrix brings the vector back to its width. So it can be added to what was there before.",
      formula: "output = hidden W₂",
      names: (c) => [`${c.p}.hidden`, `${c.p}.output`],
      weights: (c) => needs(c, c.module("narrow"), c.j),
      show: (c) => [c.full("hidden", "hidden", "value"), "→", c.full("output", "output", "residual")],
      sum: (c) => linearSum(c, c.module("narrow"), rowOf(c.at("hidden"), c.row), "output", rowOf(c.at("output"), c.row)[c.j]),
    },
    residual(post, "the net"),
  ];
}

/** Return the stage that adds what a sublayer said. */
export function residual(post, name) {
  return {
    id: "residual", title: "+ residual", code: [["Layer.around", LAYERS]],
    says: "What a sublayer says does not replace the vector of a token, it is added to it. So each layer only has to learn what to change, and what was known is not lost on the way.",
    formula: post ? "sum = x + sublayer(x)" : "sum = x + sublayer(norm(x))",
    names: (c) => [c.enters, `${c.p}.output`, `${c.p}.residual`],
    show: (c) => [c.full(c.enters, "x, as it came", "residual"), "+", c.full("output", `${name} said`, "value"), "=", c.full("residual", "sum", "residual")],
    sum: (c) => {
      const [x, said, sum] = [c.M(c.enters), c.at("output"), c.at("residual")].map((matrix) => rowOf(matrix, c.row)[c.j]);
      return [`Number ${c.j} for ${quoted(c.rowNames[c.row])}:`, `${short(x)} + ${inside(said)} = ${short(sum)}`];
    },
  };
}

/** Return the stage of a sublayer's norm. */
export function norm(post) {
  const name = (c) => `${c.tower}.layers.${c.layer}.${c.sub}_norm`;
  return {
    id: "norm", title: "Norm", code: [["Layer.around", LAYERS], ["make_norm", LAYERS]],
    says: post
      ? "Each vector is brought to the same scale, by its own mean and spread alone. This model does it after adding, as the paper does (post-norm)."
      : "Each vector is brought to the same scale, by its own mean and spread alone. This model does it before each sublayer (pre-norm), not after adding as in the paper; what is added up stays as it is.",
    formula: "norm(x) = (x − mean) ÷ deviation · gain + shift",
    more: (c) => (c.m.norm === "rms" ? "This model has RMS norms: they divide by the size of the vector and subtract no mean." : null),
    names: (c) => [c.beforeNorm, `${c.p}.norm`],
    weights: (c) => c.normNeeds(name(c)),
    show: (c) => [c.full(c.beforeNorm, "x", "residual"), "→", c.full("norm", "norm", "residual")],
    sum: (c) => [`Number ${c.j} for ${quoted(c.rowNames[c.row])}:`, ...normed(c, name(c), rowOf(c.M(c.beforeNorm), c.row), c.j, rowOf(c.at("norm"), c.row)[c.j])],
  };
}
