// The residual and norm stages around every sublayer, and the stages of the feed-forward network.

import { short } from "/drawing/numbers.js";
import { quote } from "/drawing/token_text.js";
import { inside, linear, linearSum, needs, normLines, rowOf } from "./walk_formulas.js";

const LAYERS = "model/layers.py";
const ACTIVATIONS = {
  relu: ["max(0, a)", "sets negative numbers to 0"],
  gelu: ["gelu(a)", "sets clearly negative numbers to nearly 0"],
  gelu_tanh: ["gelu(a)", "sets clearly negative numbers to nearly 0"],
  silu: ["a · sigmoid(a)", "sets clearly negative numbers to nearly 0"],
  swiglu: ["silu(gate) · a", "scales each number by a second projection, the gate"],
};

/** Return the stages of the feed-forward network. */
export function feedForward(model, post) {
  const [formula, does] = ACTIVATIONS[model.activation] ?? ACTIVATIONS.relu;
  return [
    {
      id: "hidden", title: "Feed-forward: up projection and activation", code: [["FeedForward.forward", LAYERS]],
      explanation: `Each token is processed independently: a projection widens its vector, and the activation function ${does}. Much of a model's knowledge is thought to be stored here.`,
      formula: `a = x W₁\nhidden = ${formula}`,
      names: (c) => [c.reads, `${c.p}.hidden`],
      weights: (c) => [...needs(c, c.module("up_proj"), c.j), ...(model.activation === "swiglu" ? needs(c, c.module("gate_proj"), c.j) : [])],
      show: (c) => [c.full(c.reads, "x", "residual"), "→", c.full("hidden", "hidden", "value")],
      sum: (c) => {
        const x = rowOf(c.M(c.reads), c.row);
        const hidden = rowOf(c.at("hidden"), c.row);
        const made = linear(c, c.module("up_proj"), c.j, x, "a");
        const gate = model.activation === "swiglu" ? linear(c, c.module("gate_proj"), c.j, x, "gate") : null;
        const zeros = hidden.reduce((count, value) => count + (value === 0 ? 1 : 0), 0);
        return [`Dimension ${c.j} for ${quote(c.rowNames[c.row])}:`, ...(made?.lines ?? []), ...(gate?.lines ?? []), `${formula} = ${short(hidden[c.j])}`,
          ...(model.activation === "relu" ? [`${zeros} of its ${hidden.length} numbers are 0 after the activation.`] : [])];
      },
    },
    {
      id: "output", title: "Feed-forward: down projection", code: [["FeedForward.forward", LAYERS]],
      explanation: "A second projection restores the model width, so that the result can be added to the residual stream.",
      formula: "output = hidden W₂",
      names: (c) => [`${c.p}.hidden`, `${c.p}.output`],
      weights: (c) => needs(c, c.module("down_proj"), c.j),
      show: (c) => [c.full("hidden", "hidden", "value"), "→", c.full("output", "output", "residual")],
      sum: (c) => linearSum(c, c.module("down_proj"), rowOf(c.at("hidden"), c.row), "output", rowOf(c.at("output"), c.row)[c.j]),
    },
    residual(post, "feed-forward"),
  ];
}

/** Return the stage that adds the output of a sublayer to the residual stream. */
export function residual(post, name) {
  return {
    id: "residual", title: "Residual connection", code: [["Layer.residual", LAYERS]],
    explanation: "The output of a sublayer does not replace the vector of a token but is added to it. Each layer only learns a change, and information is not lost on the way.",
    formula: post ? "sum = x + sublayer(x)" : "sum = x + sublayer(norm(x))",
    names: (c) => [c.enters, `${c.p}.output`, `${c.p}.residual`],
    show: (c) => [c.full(c.enters, "x", "residual"), "+", c.full("output", `${name} output`, "value"), "=", c.full("residual", "sum", "residual")],
    sum: (c) => {
      const [x, output, sum] = [c.M(c.enters), c.at("output"), c.at("residual")].map((matrix) => rowOf(matrix, c.row)[c.j]);
      return [`Dimension ${c.j} for ${quote(c.rowNames[c.row])}:`, `${short(x)} + ${inside(output)} = ${short(sum)}`];
    },
  };
}

/** Return the norm stage of a sublayer. */
export function norm(post) {
  const name = (c) => `${c.tower}.layers.${c.layer}.${c.sub}_norm`;
  return {
    id: "norm", title: "Norm", code: [["Layer.residual", LAYERS], ["make_norm", LAYERS]],
    explanation: post
      ? "Each vector is normalized by its own mean and standard deviation. This model does so after the residual connection, as in the paper (post-norm)."
      : "Each vector is normalized by its own mean and standard deviation. This model does so before each sublayer (pre-norm), not after the residual connection as in the paper; the residual stream itself is not normalized.",
    formula: "norm(x) = (x − mean) ÷ deviation · gain + shift",
    more: (c) => (c.m.norm === "rms" ? "RMSNorm: divide by the root mean square of the vector, without subtracting the mean." : null),
    names: (c) => [c.beforeNorm, `${c.p}.norm`],
    weights: (c) => c.normNeeds(name(c)),
    show: (c) => [c.full(c.beforeNorm, "x", "residual"), "→", c.full("norm", "norm", "residual")],
    sum: (c) => [`Dimension ${c.j} for ${quote(c.rowNames[c.row])}:`, ...normLines(c, name(c), rowOf(c.M(c.beforeNorm), c.row), c.j, rowOf(c.at("norm"), c.row)[c.j])],
  };
}
