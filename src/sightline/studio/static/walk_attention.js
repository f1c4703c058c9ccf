// The stages of an attention. Every stage says what it shows of a context `c` (walk_context.js): panels of points, a
// formula, and the sum for the chosen token, key and number.

import { short } from "/drawing/numbers.js";
import { quoted } from "/drawing/texts.js";
import { residual } from "./walk_sublayers.js";
import { inside, linear, linearSum, namedProducts, needs, products, rowOf } from "./walk_sums.js";

const ATTENTION = "model/attention.py";

/** Return the stages of a sublayer's attention. `kind` is "both" (everybody sees everybody), "back" (only what came before) or "cross". */
export function attention(kind, post) {
  const cross = kind === "cross";
  const who = cross ? "Cross-attention" : kind === "back" ? "Masked self-attention" : "Self-attention";
  const square = (c, point, more = {}) => ({ matrix: c.at(point), rowNames: c.rowNames, columnNames: c.keyNames, row: c.row, column: c.key, passages: [c.passage, c.keyPassage], picks: "key", ...more });
  const wide = (c, point, title, idea, more = {}) => ({ title, idea, matrix: c.at(point), rowNames: c.rowNames, row: c.row, column: c.d, passages: [c.passage], picks: "number", ...more });
  const vector = (c, point, title, idea, row = c.row) => ({ title, idea, matrix: { rows: 1, columns: c.D, data: rowOf(c.at(point), row) }, row: 0, column: c.d, picks: "number", passages: [null] });
  const pair = (c) => `${quoted(c.rowNames[c.row])} and ${quoted(c.keyNames[c.key])}`;
  return [
    {
      id: "qkv", title: `${who}: queries, keys, values`, code: [["MultiHeadAttention.forward", ATTENTION], cross ? ["MultiHeadAttention.remember", ATTENTION] : ["joined", ATTENTION], ["MultiHeadAttention.split", ATTENTION]],
      says: cross
        ? "Here the two towers meet: the query comes from the decoder (what do I need now?), keys and values come from what the encoder made of the sentence. The way on is the same as before."
        : "Three learned matrices make three vectors of each token: a query (what am I looking for?), a key (what am I?) and a value (what do I give to those who look at me?). Each head has its own and works by itself.",
      formula: cross ? "q = x W_Q\nk = memory W_K\nv = memory W_V" : "q = x W_Q\nk = x W_K\nv = x W_V",
      more: (c) => (c.m.positions === "rotary" && !cross ? "This model turns queries and keys by an angle that grows with the position: so a dot product depends on how far apart two tokens stand." : null),
      names: (c) => [c.reads, ...(cross ? [c.memory] : []), ...c.points("query", "key", "value")],
      weights: (c) => [...needs(c, c.module("query"), c.head * c.D + c.d), ...(rotary(c) ? needs(c, c.module("query"), c.head * c.D + partner(c)) : [])],
      show: (c) => [
        { title: cross ? "x, from the decoder" : "x, one row a token", idea: "residual", matrix: c.M(c.reads), rowNames: c.rowNames, row: c.row, passages: [c.passage] },
        ...(cross ? [{ title: "memory, from the encoder", idea: "residual", matrix: c.M(c.memory), rowNames: c.keyNames, row: c.key, passages: [c.keyPassage], picks: "keyRow", lit: "key" }] : []),
        "↓",
        wide(c, "query", "queries", "query", { share: 3 }),
        wide(c, "key", "keys", "key", { share: 3, rowNames: c.keyNames, row: c.key, passages: [c.keyPassage], picks: "keyRow", lit: "key" }),
        wide(c, "value", "values", "value", { share: 3, rowNames: c.keyNames, row: c.key, passages: [c.keyPassage], picks: "keyRow", lit: "key" }),
      ],
      sum: (c) => querySum(c),
    },
    {
      id: "scores", title: `${who}: dot products`, code: [["attend", ATTENTION]],
      says: "The query of one token is multiplied with the key of another, number by number, and all is added up. The better they fit, the larger the sum.",
      formula: "score = q · k = q₀k₀ + q₁k₁ + …",
      names: (c) => c.points("query", "key", "scores", "weights"),
      show: (c) => [vector(c, "query", `query of ${quoted(c.rowNames[c.row])}`, "query"), "•", vector(c, "key", `key of ${quoted(c.keyNames[c.key])}`, "key", c.key), "=", square(c, "scores", { title: "dot products", idea: "weight" })],
      sum: (c) => [`For ${pair(c)}:`, `q · k = ${products(rowOf(c.at("query"), c.row), rowOf(c.at("key"), c.key))} = ${short(c.cell("scores"))}`],
    },
    {
      id: "scaled", title: `${who}: ÷ √d`, code: [["attend", ATTENTION]],
      says: "Each sum is divided by the root of how many numbers were added. Without this, wide heads would have such large sums that the softmax knows one winner only.",
      formula: "scaled = q · k ÷ √d_k",
      names: (c) => c.points("scores", "scaled", "weights"),
      show: (c) => [square(c, "scores", { title: "dot products", idea: "weight", share: 2 }), "÷", square(c, "scaled", { title: `÷ √${c.D}`, idea: "weight", share: 2 })],
      sum: (c) => [`For ${pair(c)}:`, `${short(c.cell("scores"))} ÷ √${c.D} = ${short(c.cell("scores"))} ÷ ${short(Math.sqrt(c.D))} = ${short(c.cell("scaled"))}`],
    },
    {
      id: "masked", title: `${who}: ${kind === "back" ? "+ look-ahead mask" : "+ mask"}`, code: kind === "back" ? [["attend", ATTENTION], ["look_ahead_mask", "model/masks.py"]] : [["attend", ATTENTION], ["padding_mask", "model/masks.py"]],
      says: kind === "back"
        ? "What comes later must not be seen, for it is what shall be told: −∞ is added there (the empty triangle). To all others 0 is added."
        : "To forbidden places −∞ would be added, to all others 0. Here everybody may look at every token of the sentence; only the padding of shorter sentences in a batch is forbidden, and one sentence has none.",
      formula: kind === "back" ? "masked = scaled + (0 if the key is not later, else −∞)" : "masked = scaled + 0",
      names: (c) => c.points("scaled", "masked", "weights"),
      show: (c) => [square(c, "scaled", { title: "scaled", idea: "weight", share: 2 }), "+", square(c, "masked", { title: "+ mask", idea: "weight", share: 2 })],
      sum: (c) => [`For ${pair(c)}:`, `${short(c.cell("scaled"))} + ${c.cell("masked") === -Infinity ? "(−∞)" : "0"} = ${short(c.cell("masked"))}`],
    },
    {
      id: "weights", title: `${who}: softmax`, code: [["attend", ATTENTION], ["softmax_or_zero", ATTENTION]],
      says: "e to the power of each number, divided by the sum of its row. These are the attention weights: none is negative, and each row adds up to 1.",
      formula: "weight = e^masked ÷ Σ e^masked",
      names: (c) => c.points("masked", "weights"),
      show: (c) => [square(c, "masked", { title: "masked", idea: "weight", share: 2 }), "→", square(c, "weights", { title: "weights", idea: "weight", scale: "weight", share: 2 })],
      sum: (c) => softmaxSum(c, pair(c)),
    },
    {
      id: "mixed", title: `${who}: weighted sum of values`, code: [["attend", ATTENTION]],
      says: "The values of all tokens are added up, each times its weight. What comes out is mostly made of the tokens that were looked at most.",
      formula: "mixed = Σ weight · v",
      names: (c) => c.points("weights", "value", "mixed"),
      show: (c) => [
        { title: `weights of ${quoted(c.rowNames[c.row])}`, idea: "weight", scale: "weight", matrix: { rows: 1, columns: c.keyNames.length, data: rowOf(c.at("weights"), c.row) }, columnNames: c.keyNames, row: 0, column: c.key, picks: "key", passages: [null, c.keyPassage] },
        "•", wide(c, "value", "values", "value", { rowNames: c.keyNames, row: c.key, share: 2, passages: [c.keyPassage], picks: "keyRow", lit: "key" }),
        "=", wide(c, "mixed", "mixed", "value", { share: 2 }),
      ],
      sum: (c) => {
        const values = Array.from(c.keyNames, (_, at) => rowOf(c.at("value"), at)[c.d]);
        const weights = rowOf(c.at("weights"), c.row);
        return [`Number ${c.d} for ${quoted(c.rowNames[c.row])}:`, `${namedProducts(weights, values, c.keyNames.map(quoted))} = ${short(rowOf(c.at("mixed"), c.row)[c.d])}`];
      },
    },
    {
      id: "concatenated", title: `${who}: heads side by side`, code: [["MultiHeadAttention.output_of", ATTENTION]],
      says: "Every head has made a short vector of each token. They are put side by side, which gives the full width again.",
      formula: "concatenated = [head 0, head 1, …]",
      names: (c) => [...c.points("mixed"), `${c.p}.concatenated`],
      show: (c) => [wide(c, "mixed", `mixed, of head ${c.head}`, "value"), "→", { title: "all heads", idea: "value", matrix: c.at("concatenated"), rowNames: c.rowNames, row: c.row, column: c.head * c.D + c.d, passages: [c.passage], picks: "joined" }],
      sum: (c) => [`Head ${c.head} has the numbers ${c.head * c.D} to ${(c.head + 1) * c.D - 1}.`, `Its number ${c.d} is number ${c.head} · ${c.D} + ${c.d} = ${c.head * c.D + c.d} of all: ${short(rowOf(c.at("mixed"), c.row)[c.d])} = ${short(rowOf(c.at("concatenated"), c.row)[c.head * c.D + c.d])}`],
    },
    {
      id: "output", title: `${who}: output projection`, code: [["MultiHeadAttention.output_of", ATTENTION]],
      says: "One more learned matrix mixes what the heads have found. Only here do they hear of each other.",
      formula: "output = concatenated W_O",
      names: (c) => [`${c.p}.concatenated`, `${c.p}.output`],
      weights: (c) => needs(c, c.module("output"), c.j),
      show: (c) => [c.full("concatenated", "all heads", "value"), "→", c.full("output", "output", "residual")],
      sum: (c) => linearSum(c, c.module("output"), rowOf(c.at("concatenated"), c.row), "output", rowOf(c.at("output"), c.row)[c.j]),
    },
    residual(post, "attention"),
  ];
}

function rotary(c) {
  return c.m.positions === "rotary" && c.sub === "self_attention";
}

/** The number that a rotary position turns together with the chosen one. */
function partner(c) {
  return (c.d + c.D / 2) % c.D;
}

function querySum(c) {
  const x = rowOf(c.M(c.reads), c.row);
  const result = rowOf(c.at("query"), c.row)[c.d];
  const made = linear(c, c.module("query"), c.head * c.D + c.d, x, "q");
  const lines = [`Number ${c.d} of the query of ${quoted(c.rowNames[c.row])} in head ${c.head}:`, ...(made?.lines ?? [`q = ${short(result)}`])];
  const other = rotary(c) ? linear(c, c.module("query"), c.head * c.D + partner(c), x, "its partner") : null;
  if (made === null || other === null) return lines;
  const first = c.d < c.D / 2;
  const angle = c.row * c.m.rotary_base ** ((-2 * Math.min(c.d, partner(c))) / c.D);
  const turned = `${short(made.value)}·cos ${first ? "−" : "+"} ${inside(other.value)}·sin`;
  return [...lines, ...other.lines, `position ${c.row} turns the pair by ${short(angle)}: ${turned} = ${short(result)}`];
}

function softmaxSum(c, pair) {
  const row = rowOf(c.at("masked"), c.row);
  const powers = Array.from(row, Math.exp);
  const sum = powers.reduce((total, power) => total + power, 0);
  const total = rowOf(c.at("weights"), c.row).reduce((all, weight) => all + weight, 0);
  const terms = Array.from(row.slice(0, 4), (value) => `e^${inside(value)}`).join(" + ");
  return [`For ${pair}:`, `e^${inside(row[c.key])} ÷ (${terms}${row.length > 4 ? " + …" : ""}) = ${short(powers[c.key])} ÷ ${short(sum)} = ${short(c.cell("weights"))}`, `The ${row.length} weights of the row add up to ${short(total)}.`];
}
