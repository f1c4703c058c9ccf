// The stages of a layer: attention, the feed-forward network, and the residual connection and norm around each. A stage
// defines, for a context `c` (activations.js), its panels, its formula, and the calculation for the selected token, key and
// dimension.

import { quote, short } from "/page/text.js";
import { hasBias } from "./activations.js";
import { inside, linear, linearSum, namedProducts, needs, normFormula, normLines, products, rowOf } from "./formulas.js";

const ATTENTION = "model/attention.py";
const LAYERS = "model/layers.py";
const ACTIVATIONS = {
  relu: ["max(0, a)", "sets negative numbers to 0"],
  gelu: ["gelu(a)", "sets clearly negative numbers to nearly 0"],
  gelu_tanh: ["gelu(a)", "sets clearly negative numbers to nearly 0"],
  silu: ["a · sigmoid(a)", "sets clearly negative numbers to nearly 0"],
  swiglu: ["silu(gate) · a", "scales each number by a second projection, the gate"],
};

/** Return the stages of an attention sublayer; `kind` is "bidirectional", "causal" or "cross". */
export function attention(kind, model) {
  const post = !model.pre_norm;
  const cross = kind === "cross";
  const [bias, outputBias] = [hasBias(model, "qkv_bias"), hasBias(model, "attention_output_bias")];
  const projected = (x, name) => `${x} W_${name}${bias ? ` + b_${name}` : ""}`;
  const who = cross ? "Cross-attention" : kind === "causal" ? "Masked self-attention" : "Self-attention";
  const square = (c, point, more = {}) => ({ matrix: c.at(point), rowNames: c.rowNames, columnNames: c.keyNames, row: c.row, column: c.key, sequences: [c.sequence, c.keySequence], picks: "key", ...more });
  const wide = (c, point, title, idea, more = {}) => ({ title, idea, matrix: c.at(point), rowNames: c.rowNames, row: c.row, column: c.d, sequences: [c.sequence], picks: "number", ...more });
  const vector = (c, point, title, idea, row = c.row) => ({ title, idea, matrix: { rows: 1, columns: c.D, data: rowOf(c.at(point), row) }, row: 0, column: c.d, picks: "number", sequences: [null] });
  const pair = (c) => `${quote(c.rowNames[c.row])} and ${quote(c.keyNames[c.key])}`;
  return [
    {
      id: "qkv", title: `${who}: queries, keys, values`, code: [["MultiHeadAttention.forward", ATTENTION], cross ? ["MultiHeadAttention.project_cross_kv", ATTENTION] : ["fused_projection", ATTENTION], ["MultiHeadAttention.split_heads", ATTENTION]],
      explanation: cross
        ? "Cross-attention connects decoder and encoder: queries come from the decoder, keys and values from the encoder output. The rest is the same as in self-attention."
        : "Three learned projections give each token a query (what it is looking for), a key (what it offers) and a value (what it passes on). Each head has its own projections and works independently.",
      formula: `q = ${projected("x", "Q")}\nk = ${projected(cross ? "encoder_output" : "x", "K")}\nv = ${projected(cross ? "encoder_output" : "x", "V")}`,
      more: (c) => (c.m.positions === "rope" && !cross ? "Rotary position embeddings (RoPE): queries and keys are rotated by an angle that grows with the position, so their dot product depends on the distance between two tokens." : null),
      names: (c) => [c.reads, ...(cross ? [c.encoderOutput] : []), ...c.points("query", "key", "value")],
      weights: (c) => [c.d, ...(rotary(c) ? [partner(c)] : [])].flatMap((d) => needs(c, c.module("query"), c.head * c.D + d, bias)),
      show: (c) => [
        { title: cross ? "x, from the decoder" : "x, one row per token", idea: "residual", matrix: c.M(c.reads), rowNames: c.rowNames, row: c.row, sequences: [c.sequence] },
        ...(cross ? [{ title: "encoder output", idea: "residual", matrix: c.M(c.encoderOutput), rowNames: c.keyNames, row: c.key, sequences: [c.keySequence], picks: "keyRow", lit: "key" }] : []),
        "↓",
        wide(c, "query", "queries", "query", { share: 3 }),
        wide(c, "key", "keys", "key", { share: 3, rowNames: c.keyNames, row: c.key, sequences: [c.keySequence], picks: "keyRow", lit: "key" }),
        wide(c, "value", "values", "value", { share: 3, rowNames: c.keyNames, row: c.key, sequences: [c.keySequence], picks: "keyRow", lit: "key" }),
      ],
      sum: (c) => querySum(c),
    },
    {
      id: "scores", title: `${who}: dot products`, code: [["attend", ATTENTION]],
      explanation: "The attention score is the dot product of the query of one token and the key of another. The better they match, the larger the score.",
      formula: "score = q · k = q₀k₀ + q₁k₁ + …",
      names: (c) => c.points("query", "key", "scores", "weights"),
      show: (c) => [vector(c, "query", `query of ${quote(c.rowNames[c.row])}`, "query"), "•", vector(c, "key", `key of ${quote(c.keyNames[c.key])}`, "key", c.key), "=", square(c, "scores", { title: "dot products", idea: "weight" })],
      sum: (c) => [`For ${pair(c)}:`, `q · k = ${products(rowOf(c.at("query"), c.row), rowOf(c.at("key"), c.key))} = ${short(c.cell("scores"))}`],
    },
    {
      id: "scaled", title: `${who}: ÷ √d`, code: [["attend", ATTENTION]],
      explanation: "Each score is divided by the square root of the head width. Without this, wide heads would have such large scores that the softmax saturates.",
      formula: "scaled = q · k ÷ √d_k",
      names: (c) => c.points("scores", "scaled", "weights"),
      show: (c) => [square(c, "scores", { title: "dot products", idea: "weight", share: 2 }), "÷", square(c, "scaled", { title: `÷ √${c.D}`, idea: "weight", share: 2 })],
      sum: (c) => [`For ${pair(c)}:`, `${short(c.cell("scores"))} ÷ √${c.D} = ${short(c.cell("scores"))} ÷ ${short(Math.sqrt(c.D))} = ${short(c.cell("scaled"))}`],
    },
    {
      id: "masked", title: `${who}: ${kind === "causal" ? "+ causal mask" : "+ mask"}`, code: kind === "causal" ? [["attend", ATTENTION], ["causal_mask", "model/masks.py"]] : [["attend", ATTENTION], ["padding_mask", "model/masks.py"]],
      explanation: kind === "causal"
        ? "A token must not attend to later ones, which the model has to predict: −∞ is added to their scores (the empty triangle), 0 to all others."
        : "−∞ is added to the scores of masked keys, 0 to all others. Here every token may attend to every other; only padding in a batch is masked, and a single text has none.",
      formula: kind === "causal" ? "masked = scaled + (0 if the key is not later, else −∞)" : "masked = scaled + 0",
      names: (c) => c.points("scaled", "masked", "weights"),
      show: (c) => [square(c, "scaled", { title: "scaled", idea: "weight", share: 2 }), "+", square(c, "masked", { title: "+ mask", idea: "weight", share: 2 })],
      sum: (c) => [`For ${pair(c)}:`, `${short(c.cell("scaled"))} + ${c.cell("masked") === -Infinity ? "(−∞)" : "0"} = ${short(c.cell("masked"))}`],
    },
    {
      id: "weights", title: `${who}: softmax`, code: [["attend", ATTENTION], ["softmax_or_zero", ATTENTION]],
      explanation: "The softmax of each row: e to the power of each score, divided by the sum of the row. The attention weights are not negative, and each row sums to 1.",
      formula: "weight = e^masked ÷ Σ e^masked",
      names: (c) => c.points("masked", "weights"),
      show: (c) => [square(c, "masked", { title: "masked", idea: "weight", share: 2 }), "→", square(c, "weights", { title: "weights", idea: "weight", scale: "weight", share: 2 })],
      sum: (c) => softmaxSum(c, pair(c)),
    },
    {
      id: "head_outputs", title: `${who}: weighted sum of values`, code: [["attend", ATTENTION]],
      explanation: "The output of a head is the sum of the values of all tokens, weighted by attention.",
      formula: "head_output = Σ weight · v",
      names: (c) => c.points("weights", "value", "head_outputs"),
      show: (c) => [
        { title: `weights of ${quote(c.rowNames[c.row])}`, idea: "weight", scale: "weight", matrix: { rows: 1, columns: c.keyNames.length, data: rowOf(c.at("weights"), c.row) }, columnNames: c.keyNames, row: 0, column: c.key, picks: "key", sequences: [null, c.keySequence] },
        "•", wide(c, "value", "values", "value", { rowNames: c.keyNames, row: c.key, share: 2, sequences: [c.keySequence], picks: "keyRow", lit: "key" }),
        "=", wide(c, "head_outputs", "head output", "value", { share: 2 }),
      ],
      sum: (c) => {
        const values = Array.from(c.keyNames, (_, at) => rowOf(c.at("value"), at)[c.d]);
        const weights = rowOf(c.at("weights"), c.row);
        return [`Dimension ${c.d} for ${quote(c.rowNames[c.row])}:`, `${namedProducts(weights, values, c.keyNames.map(quote))} = ${short(rowOf(c.at("head_outputs"), c.row)[c.d])}`];
      },
    },
    {
      id: "merged_heads", title: `${who}: concatenated heads`, code: [["MultiHeadAttention.merge_heads", ATTENTION]],
      explanation: "The outputs of all heads are concatenated into one vector per token.",
      formula: "merged = [head 0, head 1, …]",
      names: (c) => [...c.points("head_outputs"), `${c.p}.merged_heads`],
      show: (c) => [wide(c, "head_outputs", `output of head ${c.head}`, "value"), "→", { title: "all heads", idea: "value", matrix: c.at("merged_heads"), rowNames: c.rowNames, row: c.row, column: c.head * c.D + c.d, sequences: [c.sequence], picks: "joined" }],
      sum: (c) => [`Head ${c.head} has dimensions ${c.head * c.D} to ${(c.head + 1) * c.D - 1}.`, `Its dimension ${c.d} is dimension ${c.head} · ${c.D} + ${c.d} = ${c.head * c.D + c.d} of all: ${short(rowOf(c.at("head_outputs"), c.row)[c.d])} = ${short(rowOf(c.at("merged_heads"), c.row)[c.head * c.D + c.d])}`],
    },
    {
      id: "output", title: `${who}: output projection`, code: [["MultiHeadAttention.merge_heads", ATTENTION]],
      explanation: "A learned projection combines the outputs of all heads.",
      formula: `output = merged W_O${outputBias ? " + b_O" : ""}`,
      names: (c) => [`${c.p}.merged_heads`, `${c.p}.output`],
      weights: (c) => needs(c, c.module("output"), c.j, outputBias),
      show: (c) => [c.full("merged_heads", "all heads", "value"), "→", c.full("output", "output", "residual")],
      sum: (c) => linearSum(c, c.module("output"), rowOf(c.at("merged_heads"), c.row), "output", rowOf(c.at("output"), c.row)[c.j]),
    },
    residual(post, "attention"),
  ];
}

function rotary(c) {
  return c.m.positions === "rope" && c.sub === "self_attention";
}

/** What happens to a query after its projection and is not calculated here: the norm of a head, scaled rotations. */
function further(c) {
  const scaled = rotary(c) && (c.m.rope_scaling ?? "none") !== "none";
  if (c.m.qk_norm) return rotary(c) ? "the norm of the head (q/k norm) and the rotation" : "the norm of the head (q/k norm)";
  return scaled ? `the rotation (RoPE scaling ${c.m.rope_scaling})` : null;
}

/** The dimension that RoPE rotates together with the selected one. */
function partner(c) {
  return (c.d + c.D / 2) % c.D;
}

function querySum(c) {
  const x = rowOf(c.M(c.reads), c.row);
  const result = rowOf(c.at("query"), c.row)[c.d];
  const made = linear(c, c.module("query"), c.head * c.D + c.d, x, "q");
  const lines = [`Dimension ${c.d} of the query of ${quote(c.rowNames[c.row])} in head ${c.head}:`, ...(made?.lines ?? [`q = ${short(result)}`])];
  if (further(c) !== null) return [...lines, `after ${further(c)}: ${short(result)}`];
  const other = rotary(c) ? linear(c, c.module("query"), c.head * c.D + partner(c), x, "its partner") : null;
  if (made === null || other === null) return lines;
  const first = c.d < c.D / 2;
  const angle = c.row * c.m.rope_theta ** ((-2 * Math.min(c.d, partner(c))) / c.D);
  const turned = `${short(made.value)}·cos ${first ? "−" : "+"} ${inside(other.value)}·sin`;
  return [...lines, ...other.lines, `position ${c.row} rotates the pair by ${short(angle)}: ${turned} = ${short(result)}`];
}

function softmaxSum(c, pair) {
  const row = rowOf(c.at("masked"), c.row);
  const powers = Array.from(row, Math.exp);
  const sum = powers.reduce((total, power) => total + power, 0);
  const total = rowOf(c.at("weights"), c.row).reduce((all, weight) => all + weight, 0);
  const terms = Array.from(row.slice(0, 4), (value) => `e^${inside(value)}`).join(" + ");
  return [`For ${pair}:`, `e^${inside(row[c.key])} ÷ (${terms}${row.length > 4 ? " + …" : ""}) = ${short(powers[c.key])} ÷ ${short(sum)} = ${short(c.cell("weights"))}`, `The ${row.length} weights of the row sum to ${short(total)}.`];
}

/** Return the stages of the feed-forward network. */
export function feedForward(model) {
  const post = !model.pre_norm;
  const bias = hasBias(model, "feed_forward_bias");
  const gated = model.activation === "swiglu";
  const [formula, does] = ACTIVATIONS[model.activation] ?? ACTIVATIONS.relu;
  return [
    {
      id: "hidden", title: "Feed-forward: up projection and activation", code: [["FeedForward.forward", LAYERS]],
      explanation: `Each token is processed independently: a projection widens its vector, and the activation function ${does}. Much of a model's knowledge is thought to be stored here.`,
      formula: `a = x W₁${bias ? " + b₁" : ""}\n${gated ? `gate = x W_g${bias ? " + b_g" : ""}\n` : ""}hidden = ${formula}`,
      names: (c) => [c.reads, `${c.p}.hidden`],
      weights: (c) => ["up_proj", ...(gated ? ["gate_proj"] : [])].flatMap((name) => needs(c, c.module(name), c.j, bias)),
      show: (c) => [c.full(c.reads, "x", "residual"), "→", c.full("hidden", "hidden", "value")],
      sum: (c) => {
        const x = rowOf(c.M(c.reads), c.row);
        const hidden = rowOf(c.at("hidden"), c.row);
        const made = linear(c, c.module("up_proj"), c.j, x, "a");
        const gate = gated ? linear(c, c.module("gate_proj"), c.j, x, "gate") : null;
        const zeros = hidden.reduce((count, value) => count + (value === 0 ? 1 : 0), 0);
        return [`Dimension ${c.j} for ${quote(c.rowNames[c.row])}:`, ...(made?.lines ?? []), ...(gate?.lines ?? []), `${formula} = ${short(hidden[c.j])}`,
          ...(model.activation === "relu" ? [`${zeros} of its ${hidden.length} numbers are 0 after the activation.`] : [])];
      },
    },
    {
      id: "output", title: "Feed-forward: down projection", code: [["FeedForward.forward", LAYERS]],
      explanation: "A second projection restores the model width, so that the result can be added to the residual stream.",
      formula: `output = hidden W₂${bias ? " + b₂" : ""}`,
      names: (c) => [`${c.p}.hidden`, `${c.p}.output`],
      weights: (c) => needs(c, c.module("down_proj"), c.j, bias),
      show: (c) => [c.full("hidden", "hidden", "value"), "→", c.full("output", "output", "residual")],
      sum: (c) => linearSum(c, c.module("down_proj"), rowOf(c.at("hidden"), c.row), "output", rowOf(c.at("output"), c.row)[c.j]),
    },
    residual(post, "feed-forward"),
  ];
}

/** Return the stage that adds the output of a sublayer to the residual stream. */
function residual(post, name) {
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
export function norm(model) {
  const post = !model.pre_norm;
  const name = (c) => `${c.tower}.layers.${c.layer}.${c.sub}_norm`;
  return {
    id: "norm", title: "Norm", code: [["Layer.residual", LAYERS], ["make_norm", LAYERS]],
    explanation: post
      ? "Each vector is normalized by its own mean and standard deviation. This model does so after the residual connection, as in the paper (post-norm)."
      : "Each vector is normalized by its own mean and standard deviation. This model does so before each sublayer (pre-norm), not after the residual connection as in the paper; the residual stream itself is not normalized.",
    formula: normFormula(model),
    more: (c) => (c.m.norm === "rms" ? "RMSNorm: divide by the root mean square of the vector, without subtracting the mean." : null),
    names: (c) => [c.beforeNorm, `${c.p}.norm`],
    weights: (c) => c.normNeeds(name(c)),
    show: (c) => [c.full(c.beforeNorm, "x", "residual"), "→", c.full("norm", "norm", "residual")],
    sum: (c) => [`Dimension ${c.j} for ${quote(c.rowNames[c.row])}:`, ...normLines(c, name(c), rowOf(c.M(c.beforeNorm), c.row), c.j, rowOf(c.at("norm"), c.row)[c.j])],
  };
}
