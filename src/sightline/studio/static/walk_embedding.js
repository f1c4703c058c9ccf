// The stages from a text to the vectors that enter the first layer: tokens, ids, embeddings, positions.

import { short } from "/drawing/numbers.js";
import { quote } from "/drawing/token_text.js";
import { chips } from "./walk_panel.js";
import { inside, normLines, rowOf } from "./walk_formulas.js";

const EMBEDDING = [["Embedding.forward", "model/embedding.py"]];

/** Return the stages from a text to the vectors that enter the first layer. */
export function embeddingStages(trace, tower) {
  const { model, family } = trace;
  const scaled = model.scale_embeddings;
  const tokens = `${tower}.embedding.tokens`;
  const raw = (c) => ({ ...c.M(tokens), data: c.M(tokens).data.map((value) => value / (scaled ? Math.sqrt(c.E) : 1)) });
  const framing = { bert: " The special tokens [CLS] and [SEP] are added to every text.", gpt: "", transformer: "" }[family];
  const added = trace[tower === "encoder" ? "source" : "inputs"].tokens[0];
  const tag = family === "transformer" && added?.special ? ` The special token ${quote(added.text)} is added; it selects the target language.` : framing;
  return [
    {
      id: "tokens", title: "Tokenization", code: [["Tokenizer.encode", "data/tokenizers/tokenizer.py"]],
      explanation: `The text is split into tokens from a vocabulary learned from the training set. Frequent words are one token, rare ones several.${tag}`,
      formula: "text → tokens", names: () => [],
      show: (c) => [chips(c.rowNames, null, c.row, (row) => c.pick("row", row))],
      sum: (c) => {
        const { start, end, special } = c.trace[c.sequence].tokens[c.row];
        return [special ? `${quote(c.rowNames[c.row])} is a special token, not part of the text.` : `${quote(c.rowNames[c.row])} is token ${c.row}: characters ${start} to ${end} of the text.`];
      },
    },
    {
      id: "ids", title: "Token ids", code: [["Tokenizer.encode", "data/tokenizers/tokenizer.py"]],
      explanation: "Each token has an id, its index in the vocabulary. The model sees only these ids.",
      formula: "token → id", names: () => [],
      show: (c) => [chips(c.rowNames, c.trace[c.sequence].tokens.map(({ id }) => String(id)), c.row, (row) => c.pick("row", row))],
      sum: (c) => [`${quote(c.rowNames[c.row])} → ${c.trace[c.sequence].tokens[c.row].id}, one of ${model.vocab_size}`],
    },
    {
      id: "vectors", title: "Embedding", code: EMBEDDING,
      explanation: `The id selects a row of the learned embedding matrix: the token's vector. Tokens used in similar ways have similar embeddings.`,
      formula: "x = table[id]", names: () => [tokens],
      show: (c) => [{ ...c.full(tokens, "embedding, one row per token", "residual"), matrix: raw(c) }],
      sum: (c) => [`${quote(c.rowNames[c.row])} has id ${c.trace[c.sequence].tokens[c.row].id}; dimension ${c.j} of that row of the matrix is ${short(rowOf(raw(c), c.row)[c.j])}`],
    },
    ...(scaled ? [{
      id: "scaled", title: "× √d", code: EMBEDDING,
      explanation: "The embedding is multiplied by the square root of the model width, so that the position encoding added next does not dominate it.",
      formula: "x · √d_model", names: () => [tokens],
      show: (c) => [{ ...c.full(tokens, "embedding", "residual"), matrix: raw(c) }, "×", c.full(tokens, `× √${c.E}`, "residual")],
      sum: (c) => [`${short(rowOf(raw(c), c.row)[c.j])} · √${c.E} = ${short(rowOf(raw(c), c.row)[c.j])} · ${short(Math.sqrt(c.E))} = ${short(rowOf(c.M(tokens), c.row)[c.j])}`],
    }] : []),
    positions(trace, tower),
    ...(family === "bert" ? [embeddingNorm()] : []),
  ];
}

/** The position encoding: added to the embedding, or nothing with rotary positions. */
function positions({ model, family }, tower) {
  const point = (name) => `${tower}.embedding.${name}`;
  const adds = model.positions !== "rope" && model.positions !== "none";
  const parts = ["tokens", ...(adds ? ["positions"] : []), ...(family === "bert" && model.n_segments > 0 ? ["segments"] : [])];
  const ends = family === "bert" ? [] : ["output"];
  const learned = model.positions === "learned";
  const panels = { tokens: ["token", "residual"], positions: ["position encoding", "position"], segments: ["segment embedding", "position"], output: ["input of layer 0", "residual"] };
  const segments = parts.includes("segments") ? " A segment embedding marks which text of a pair the token belongs to." : "";
  return {
    id: "positions", title: adds ? "+ position" : "Position", code: adds && !learned ? [["Embedding.position_encoding", "model/embedding.py"], ["sinusoid_table", "model/positions.py"]] : model.positions === "rope" ? [["rotate", "model/positions.py"]] : [["Embedding.position_encoding", "model/embedding.py"]],
    explanation: adds
      ? `Attention alone ignores word order, so an encoding of the position is added: ${learned ? "a row of a second learned matrix" : "sines and cosines of many wavelengths"}.${segments || " Nearby positions have similar encodings."}`
      : model.positions === "rope"
        ? "Attention alone ignores word order. This model adds nothing here: each layer rotates queries and keys by an angle that depends on the position (rotary position embeddings)."
        : "This model has no position encoding. Only the causal mask gives it information about order.",
    formula: adds ? `x + position${segments ? " + segment" : ""}` : "x", names: () => [...parts, ...ends].map(point),
    show: (c) => [...parts, ...ends].flatMap((name, at) => [...(at === 0 ? [] : [name === "output" ? "=" : "+"]), c.full(point(name), ...panels[name])]),
    sum: (c) => {
      const [token, ...more] = parts.map((name) => rowOf(c.M(point(name)), c.row)[c.j]);
      const sum = ends.length > 0 ? rowOf(c.M(point("output")), c.row)[c.j] : more.reduce((all, value) => all + value, token);
      return [`Dimension ${c.j} for ${quote(c.rowNames[c.row])} at position ${c.row}:`, ...(adds && !learned ? [wave(c, rowOf(c.M(point("positions")), c.row)[c.j])] : []), `${[short(token), ...more.map(inside)].join(" + ")} = ${short(sum)}`];
    },
  };
}

function wave({ m, j, row, E }, value) {
  const halves = m.positions === "sinusoidal_halves";
  const pair = halves ? j % (E / 2) : Math.floor(j / 2);
  const name = (halves ? j < E / 2 : j % 2 === 0) ? "sin" : "cos";
  return `encoding: ${name}(${row} ÷ 10000^(${2 * pair}/${E})) = ${name}(${short(row / 10000 ** ((2 * pair) / E))}) = ${short(value)}`;
}

function embeddingNorm() {
  const point = (name) => `encoder.embedding.${name}`;
  const sum = (c) => {
    const parts = ["tokens", "positions", "segments"].map(point).filter((name) => c.activations.arrays.has(name)).map((name) => c.M(name));
    return { ...parts[0], data: parts[0].data.map((_, at) => parts.reduce((all, { data }) => all + data[at], 0)) };
  };
  return {
    id: "norm", title: "Embedding norm", code: EMBEDDING,
    explanation: "BERT normalizes the sum before the first layer: subtract the mean, divide by the standard deviation, then apply a learned gain and shift.",
    formula: "norm(x) = (x − mean) ÷ deviation · gain + shift", names: (c) => ["tokens", ...(/rope|none/.test(c.m.positions) ? [] : ["positions"]), ...(c.m.n_segments > 0 ? ["segments"] : []), "output"].map(point),
    weights: (c) => c.normNeeds("embedding.norm", "layer", true),
    show: (c) => [{ ...c.full(point("tokens"), "sum", "residual"), matrix: sum(c) }, "→", c.full(point("output"), "input of layer 0", "residual")],
    sum: (c) => [`Dimension ${c.j} for ${quote(c.rowNames[c.row])}:`, ...normLines(c, "embedding.norm", rowOf(sum(c), c.row), c.j, rowOf(c.M(point("output")), c.row)[c.j], c.m.norm_eps, "layer")],
  };
}

/** Return the first stages of the decoder: its input tokens and their positions. */
export function decoderInputStages(trace) {
  return [{
    id: "tokens", title: "Decoder inputs", code: [["Transformer.step", "model/transformer.py"], ["Transformer.decode", "model/transformer.py"]],
    explanation: "The decoder generates one token after another. At each step it reads the previous token (first, a start token) and predicts the next one.",
    formula: "input → output", names: () => [],
    show: (c) => [chips(c.rowNames, c.trace.target.tokens.map(({ text }) => `→ ${text}`), c.row, (row) => c.pick("row", row))],
    sum: (c) => [`Step ${c.row + 1}: input ${quote(c.rowNames[c.row])}, output ${quote(c.trace.target.tokens[c.row].text)}`],
  }, positions(trace, "decoder")];
}
