// The way through a model as a list of stages, told as this model is: both towers or one, norms before or after, positions added or turned.

import { short } from "/drawing/numbers.js";
import { quoted } from "/drawing/texts.js";
import { attention, feedForward, norm } from "./walk-layer.js";
import { bars, chips } from "./walk-panel.js";
import { inside, linear, needs, normed, rowOf } from "./walk-sums.js";

const EMBEDDING = [["Embedding.forward", "model/embedding.py"]];

/** Return the stages of a trace: {id, tower, sub, box, title, says, formula, code, names, weights, show, sum}. */
export function pathOf(trace) {
  const towers = { transformer: ["encoder", "decoder"], bert: ["encoder"], gpt: ["decoder"] }[trace.family];
  const stages = towers.flatMap((tower, at) => [...(at === 0 ? beginning(trace, tower) : again(trace)), ...layer(trace, tower), ...ending(trace, tower)]);
  return [...stages, ...deciding(trace, towers.at(-1))];
}

function placed(tower, sub, stages, boxOf = () => `${tower}.${sub}`) {
  return stages.map((stage) => ({ ...stage, point: stage.id, id: `${tower}.${sub}.${stage.id}`, tower, sub, box: boxOf(stage.id) }));
}

function layer({ model, family }, tower) {
  const post = model.norm_order === "post";
  const self = family === "bert" || tower === "encoder" ? "both" : "back";
  const subs = [["self_attention", attention(self, post)], ...(family === "transformer" && tower === "decoder" ? [["cross_attention", attention("cross", post)]] : []), ["feed_forward", feedForward(model, post)]];
  return subs.flatMap(([sub, stages]) => {
    const box = (id) => (id === "norm" ? `${tower}.${sub}.norm` : id === "residual" ? `${tower}.${sub}.residual` : `${tower}.${sub}`);
    return placed(tower, sub, post ? [...stages, norm(post)] : [norm(post), ...stages], box);
  });
}

function beginning(trace, tower) {
  const { model, family } = trace;
  const scaled = model.scaled_embedding;
  const tokens = `${tower}.embedding.tokens`;
  const raw = (c) => ({ ...c.M(tokens), data: c.M(tokens).data.map((value) => value / (scaled ? Math.sqrt(c.E) : 1)) });
  const framing = { bert: " [CLS] in front and [SEP] at the end were not typed: every text is framed by them.", gpt: "", transformer: "" }[family];
  const added = trace[tower === "encoder" ? "source" : "inputs"].tokens[0];
  const tag = family === "transformer" && added?.special ? ` The first one, ${quoted(added.text)}, was not typed: it says what is wanted.` : framing;
  return placed(tower, "embedding", [
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
  ], (id) => (id === "positions" ? `${tower}.positions` : `${tower}.embedding`));
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

/** The decoder begins as the encoder did, with what has been written. */
function again(trace) {
  return placed("decoder", "embedding", [{
    id: "tokens", title: "The decoder reads what was written", code: [["Transformer.step", "model/transformer.py"], ["Transformer.decode", "model/transformer.py"]],
    says: "The second tower writes one token after the other. Its row for a step reads the token written before (at first a start token) and must tell the next one.",
    formula: "reads → writes", names: () => [],
    show: (c) => [chips(c.rowNames, c.trace.target.tokens.map(({ text }) => `→ ${text}`), c.row, (row) => c.pick("row", row))],
    sum: (c) => [`Step ${c.row + 1}: reads ${quoted(c.rowNames[c.row])}, will write ${quoted(c.trace.target.tokens[c.row].text)}`],
  }, positions(trace, "decoder")], (id) => (id === "positions" ? "decoder.positions" : "decoder.embedding"));
}

function ending({ model, family }, tower) {
  const post = model.norm_order === "post";
  const memory = family === "transformer" && tower === "encoder";
  const rows = (c) => [`${tower}.embedding.output`, ...c.outputs()];
  const final = {
    id: "final_norm", title: "The last norm", code: [["Stack.forward", "model/layers.py"]],
    says: "In a pre-norm model nothing has normed the sum that went through all layers. One more norm does it at the end.",
    formula: "norm(x) = (x − mean) ÷ deviation · gain + shift", names: (c) => c.outputs().slice(-2),
    weights: (c) => c.normNeeds(`${tower}.final_norm`),
    show: (c) => [c.full(c.outputs().at(-2), "sum after the last layer", "residual"), "→", c.full(c.outputs().at(-1), "norm", "residual")],
    sum: (c) => [`Number ${c.j} for ${quoted(c.rowNames[c.row])}:`, ...normed(c, `${tower}.final_norm`, rowOf(c.M(c.outputs().at(-2)), c.row), c.j, rowOf(c.M(c.outputs().at(-1)), c.row)[c.j])],
  };
  const onward = {
    id: "layers", title: "Layer on layer", code: [["Stack.forward", "model/layers.py"], ...(memory ? [["Transformer.encode", "model/transformer.py"]] : [])],
    says: `The next layer does all of this again, with weights of its own, on vectors that have looked around already.${memory ? " What leaves the last one is the encoder's memory of the sentence: one vector a token, and each knows its surroundings." : ""}`,
    formula: "x → layer 0 → layer 1 → …", names: rows,
    show: (c) => [{ title: `the vector of ${quoted(c.rowNames[c.row])} from layer to layer`, idea: "residual", rowNames: rows(c).map((_, at) => (at === 0 ? "enters" : at > c.count ? "last norm" : `layer ${at - 1}`)), matrix: { rows: rows(c).length, columns: c.E, data: Float32Array.from(rows(c).flatMap((name) => [...rowOf(c.M(name), c.row)])) }, row: Math.min(c.layer + 1, rows(c).length - 1), column: c.j, picks: "layer", passages: [] }],
    sum: (c) => [`Number ${c.j} for ${quoted(c.rowNames[c.row])}: ${rows(c).map((name) => short(rowOf(c.M(name), c.row)[c.j])).join(" → ")}`],
  };
  return placed(tower, "end", post ? [onward] : [onward, final], () => `${tower}.end`);
}

/** From the last vector to a word, or a class. */
function deciding(trace, tower) {
  const { family, task, model, steps } = trace;
  if (steps.length === 0) return [];
  const classes = family === "bert" && task === "classification";
  const whole = classes && steps[0].row === 0;
  const method = family === "transformer" ? ["Transformer.logits", "model/transformer.py"] : family === "gpt" ? ["GPT.logits", "model/gpt.py"] : [whole ? "Bert.sequence_classes" : classes ? "Bert.token_classes" : "Bert.masked_words", "model/bert.py"];
  const part = family !== "bert" ? "output" : classes && !whole ? "heads.token_classes" : null; // where the last vector meets the last matrix at once
  const things = classes ? "classes" : "tokens";
  const decided = (c) => c.trace.steps[c.step];
  const chosen = (c) => decided(c).candidates[decided(c).chosen];
  const scores = (c) => decided(c).candidates.map(({ id, text }) => ({ text, value: c.slices.logits(decided(c).row)[id] }));
  const last = (c) => ({ ...c.full(c.outputs().at(-1), "the last vectors", "residual"), row: decided(c).row });
  const whose = (c) => quoted(c.rowNames[decided(c).row]);
  return placed(tower, "head", [
    {
      id: "logits", title: "Linear: a score for everything", code: whole ? [method, ["Bert.pool", "model/bert.py"]] : [method],
      says: whole
        ? "BERT tells the class of a text from the vector of its first token, [CLS], which has looked at all others. A small layer and a last matrix give a score for each class."
        : family === "bert" && !classes
          ? "At the gap, the last vector goes through one more small layer and is compared with the embedding of every token of the list. That gives a score for each."
          : classes
            ? "A last matrix gives each class a score, from the vector of the word's first token alone. All words are told at once."
            : `The last vector of the row is multiplied with one learned row for each token of the list${model.tied_output ? ", the same table as at the beginning" : ""}. That gives a score for each.`,
      formula: "score = x · w", names: (c) => [c.outputs().at(-1)], scores: (c) => decided(c).row,
      weights: (c) => (part === null ? [] : needs(c, part, chosen(c).id, part === "output" ? model.output_bias : true)),
      show: (c) => [last(c), "→", bars(`scores of the likeliest ${things}`, "weight", scores(c), decided(c).chosen)],
      sum: (c) => {
        const made = part === null ? null : linear(c, part, chosen(c).id, rowOf(c.M(c.outputs().at(-1)), decided(c).row), "score");
        return [`For ${quoted(chosen(c).text)} (number ${chosen(c).id}) at ${whose(c)}:`, ...(made?.lines ?? [`score = ${short(scores(c)[decided(c).chosen].value)}`])];
      },
    },
    {
      id: "probabilities", title: "Softmax: a probability for everything", code: [["steps_of", "tracing/likelihood.py"]],
      says: `e to the power of each score, divided by the sum over all ${things}. Now they are probabilities: together they are 1.`,
      formula: "probability = e^score ÷ Σ e^score", names: () => [], scores: (c) => decided(c).row,
      show: (c) => [bars("scores", "weight", scores(c), decided(c).chosen), "→", bars("probabilities", "probability", decided(c).candidates.map(({ text, probability }) => ({ text, value: probability })), decided(c).chosen)],
      sum: (c) => {
        const all = c.slices.logits(decided(c).row);
        const sum = all.reduce((total, value) => total + Math.exp(value), 0);
        const own = all[chosen(c).id];
        return [`For ${quoted(chosen(c).text)} at ${whose(c)}:`, `e^${inside(own)} ÷ (sum over all ${all.length}) = ${short(Math.exp(own))} ÷ ${short(sum)} = ${short(chosen(c).probability)}`];
      },
    },
    family === "bert" ? {
      id: "word", title: classes ? "The class" : "The word", code: [classes ? [whole ? "Classifier.classify" : "Classifier.tag", "pipelines/classifier.py"] : ["Filler.fill", "pipelines/filler.py"]],
      says: classes ? "The class with the largest probability is the answer. How sure the model is can be read from the number." : "The token with the largest probability fills the gap. Every gap is filled by itself: none knows of the others.",
      formula: "answer = the likeliest", names: () => [],
      show: (c) => [chips(c.trace.steps.map(({ candidates, chosen: at }) => candidates[at].text), c.trace.steps.map(({ candidates, chosen: at }) => short(candidates[at].probability)), c.step, (at) => c.pick("row", c.trace.steps[at].row))],
      sum: (c) => [`${whose(c)} → ${quoted(chosen(c).text)}, ${short(chosen(c).probability)}`],
    } : {
      id: "word", title: "The word", code: [["likeliest", "decoding/greedy.py"], ["Beams", "decoding/beam.py"]],
      says: "One token is chosen, here the likeliest or the one that a beam found best in the long run. It is appended to what was written, and the next step reads it, until the end token comes.",
      formula: "written ← written + token", names: () => [],
      show: (c) => [chips(c.trace.target.tokens.map(({ text }) => text), c.trace.steps.map(({ log_probability: log }) => short(Math.exp(log))), c.step, (at) => c.pick("row", c.trace.steps[at].row))],
      sum: (c) => [`Step ${c.step + 1} of ${steps.length}: reads ${whose(c)}, writes ${quoted(chosen(c).text)} with ${short(chosen(c).probability)}`],
    },
  ], (id) => (id === "logits" ? `${tower}.linear` : `${tower}.head`));
}
