// The stages from a text to the vectors that enter the first layer: tokens, ids, embeddings, positions.

import { short } from "/drawing/numbers.js";
import { quoted } from "/drawing/texts.js";
import { chips } from "./walk_panel.js";
import { inside, normed, rowOf } from "./walk_sums.js";

const EMBEDDING = [["Embedding.forward", "model/embedding.py"]];

/** Return the stages from a text to the vectors that enter the first layer. */
export function beginning(trace, tower) {
  const { model, family } = trace;
  const scaled = model.scaled_embedding;
  const tokens = `${tower}.embedding.tokens`;
  const raw = (c) => ({ ...c.M(tokens), data: c.M(tokens).data.map((value) => value / (scaled ? Math.sqrt(c.E) : 1)) });
  const framing = { bert: " [CLS] in front and [SEP] at the end were not typed: every text is framed by them.", gpt: "", transformer: "" }[family];
  const added = trace[tower === "encoder" ? "source" : "inputs"].tokens[0];
  const tag = family === "transformer" && added?.special ? ` The first one, ${quoted(added.text)}, was not typed: it says what is wanted.` : framing;
  return [
    {
      id: "tokens", title: "Text becomes tokens", code: [["Tokenizer.encode", "text/tokenizer.py"]],
      says: `A model knows numbers, not letters: the text is cut into pieces from a list that was learned from the training texts. Frequent words are one piece, rare ones are several.${tag}`,
      formula: "text → tokens", names: () => [],
      show: (c) => [chips(c.rowNames, null, c.row, (row) => c.pick("row", row))],
      sum: (c) => {
        const { start, end, special } = c.trace[c.passage].tokens[c.row];
        return [special ? `${quoted(c.rowNames[c.row])} stands for no letters of the text.` : `${quoted(c.rowNames[c.row])} is token ${c.row}: the letters ${start} to ${end} of the text.`];
      },
    },
    {
      id: "ids", title: "Tokens become ids", code: [["Tokenizer.encode", "text/tokenizer.py"]],
      says: "Each piece has a number, its place in the list. From here on the model sees nothing but these.",
      formula: "token → id", names: () => [],
      show: (c) => [chips(c.rowNames, c.trace[c.passage].tokens.map(({ id }) => String(id)), c.row, (row) => c.pick("row", row))],
      sum: (c) => [`${quoted(c.rowNames[c.row])} → ${c.trace[c.passage].tokens[c.row].id}, one of ${model.vocab_size}`],
    },
    {
      id: "vectors", title: "Embedding", code: EMBEDDING,
      says: `The id is looked up in a table of learned numbers, and the row found there is the token's vector. Tokens that are used alike have learned similar rows.`,
      formula: "x = table[id]", names: () => [tokens],
      show: (c) => [{ ...c.full(tokens, "embedding, one row a token", "residual"), matrix: raw(c) }],
      sum: (c) => [`${quoted(c.rowNames[c.row])} has the id ${c.trace[c.passage].tokens[c.row].id}; number ${c.j} of that row of the table is ${short(rowOf(raw(c), c.row)[c.j])}`],
    },
    ...(scaled ? [{
      id: "scaled", title: "× √d", code: EMBEDDING,
      says: "The vector is multiplied by the root of its width. Otherwise the codes of positions, which are added next, would drown it.",
      formula: "x · √d_model", names: () => [tokens],
      show: (c) => [{ ...c.full(tokens, "embedding", "residual"), matrix: raw(c) }, "×", c.full(tokens, `× √${c.E}`, "residual")],
      sum: (c) => [`${short(rowOf(raw(c), c.row)[c.j])} · √${c.E} = ${short(rowOf(raw(c), c.row)[c.j])} · ${short(Math.sqrt(c.E))} = ${short(rowOf(c.M(tokens), c.row)[c.j])}`],
    }] : []),
    positions(trace, tower),
    ...(family === "bert" ? [embeddingNorm()] : []),
  ];
}

/** Where a token stands: a code that is added, or in rotary models nothing yet. */
function positions({ model, family }, tower) {
  const point = (name) => `${tower}.embedding.${name}`;
  const adds = model.positions !== "rotary" && model.positions !== "none";
  const parts = ["tokens", ...(adds ? ["positions"] : []), ...(family === "bert" && model.n_segments > 0 ? ["segments"] : [])];
  const ends = family === "bert" ? [] : ["output"];
  const learned = model.positions === "learned";
  const panels = { tokens: ["token", "residual"], positions: ["code of its position", "position"], segments: ["which text of a pair", "position"], output: ["what enters layer 0", "residual"] };
  const segments = parts.includes("segments") ? " A third vector tells which text of a pair it is of." : "";
  return {
    id: "positions", title: adds ? "+ position" : "Position", code: adds && !learned ? [["Embedding.position_code", "model/embedding.py"], ["sinusoid_table", "model/positions.py"]] : model.positions === "rotary" ? [["rotate", "model/positions.py"]] : [["Embedding.position_code", "model/embedding.py"]],
    says: adds
      ? `Attention by itself sees a bag of tokens, so a second vector is added that depends only on where the token stands: ${learned ? "a row of a second learned table" : "sines and cosines of many wavelengths"}.${segments || " Nearby positions have similar codes."}`
      : model.positions === "rotary"
        ? "Attention by itself sees a bag of tokens. This model adds nothing here: in each layer it will turn queries and keys by an angle that depends on where the token stands (rotary positions)."
        : "This model is told nothing about where a token stands. Only the mask, which hides what comes later, gives it a sense of order.",
    formula: adds ? `x + position${segments ? " + segment" : ""}` : "x", names: () => [...parts, ...ends].map(point),
    show: (c) => [...parts, ...ends].flatMap((name, at) => [...(at === 0 ? [] : [name === "output" ? "=" : "+"]), c.full(point(name), ...panels[name])]),
    sum: (c) => {
      const [token, ...more] = parts.map((name) => rowOf(c.M(point(name)), c.row)[c.j]);
      const sum = ends.length > 0 ? rowOf(c.M(point("output")), c.row)[c.j] : more.reduce((all, value) => all + value, token);
      return [`Number ${c.j} for ${quoted(c.rowNames[c.row])} at position ${c.row}:`, ...(adds && !learned ? [wave(c, rowOf(c.M(point("positions")), c.row)[c.j])] : []), `${[short(token), ...more.map(inside)].join(" + ")} = ${short(sum)}`];
    },
  };
}

function wave({ m, j, row, E }, value) {
  const halves = m.positions === "sinusoidal_halves";
  const pair = halves ? j % (E / 2) : Math.floor(j / 2);
  const name = (halves ? j < E / 2 : j % 2 === 0) ? "sin" : "cos";
  return `code: ${name}(${row} ÷ 10000^(${2 * pair}/${E})) = ${name}(${short(row / 10000 ** ((2 * pair) / E))}) = ${short(value)}`;
}

function embeddingNorm() {
  const point = (name) => `encoder.embedding.${name}`;
  const sum = (c) => {
    const parts = ["tokens", "positions", "segments"].map(point).filter((name) => c.slices.arrays.has(name)).map((name) => c.M(name));
    return { ...parts[0], data: parts[0].data.map((_, at) => parts.reduce((all, { data }) => all + data[at], 0)) };
  };
  return {
    id: "norm", title: "Norm of the sum", code: EMBEDDING,
    says: "BERT brings the sum to one scale before the first layer: its mean is subtracted, and it is divided by its spread. Learned gains and shifts follow.",
    formula: "norm(x) = (x − mean) ÷ deviation · gain + shift", names: (c) => ["tokens", ...(/rotary|none/.test(c.m.positions) ? [] : ["positions"]), ...(c.m.n_segments > 0 ? ["segments"] : []), "output"].map(point),
    weights: (c) => c.normNeeds("embedding.norm", "layer", true),
    show: (c) => [{ ...c.full(point("tokens"), "sum", "residual"), matrix: sum(c) }, "→", c.full(point("output"), "what enters layer 0", "residual")],
    sum: (c) => [`Number ${c.j} for ${quoted(c.rowNames[c.row])}:`, ...normed(c, "embedding.norm", rowOf(sum(c), c.row), c.j, rowOf(c.M(point("output")), c.row)[c.j], c.m.norm_epsilon, "layer")],
  };
}

/** Return how the decoder begins: as the encoder did, with what has been written. */
export function again(trace) {
  return [{
    id: "tokens", title: "The decoder reads what was written", code: [["Transformer.step", "model/transformer.py"], ["Transformer.decode", "model/transformer.py"]],
    says: "The second tower writes one token after the other. Its row for a step reads the token written before (at first a start token) and must tell the next one.",
    formula: "reads → writes", names: () => [],
    show: (c) => [chips(c.rowNames, c.trace.target.tokens.map(({ text }) => `→ ${text}`), c.row, (row) => c.pick("row", row))],
    sum: (c) => [`Step ${c.row + 1}: reads ${quoted(c.rowNames[c.row])}, will write ${quoted(c.trace.target.tokens[c.row].text)}`],
  }, positions(trace, "decoder")];
}
