// The stages of a text on its way through a model, by its architecture: one tower or two, pre- or post-norm, added or rotary
// positions. Here: those before the layers, from text to vectors, and after them, from vectors to a prediction.

import { quote, short } from "/page/text.js";
import { hasCrossAttention, towersOf } from "./activations.js";
import { inside, linear, needs, normFormula, normLines, rowOf } from "./formulas.js";
import { attention, feedForward, norm } from "./layer.js";
import { bars, chips } from "./panel.js";

const EMBEDDING = [["Embedding.forward", "model/embedding.py"]];
const method = ({ name, file }, method) => [`${name}.${method}`, file]; // of the model's own class

/** Return the stages of a trace, with the class of the model and its file as `code`: {id, point, tower, sub, box, title, explanation, formula, code, names, weights, show, sum}. */
export function pathOf(trace, code) {
  const towers = towersOf(trace);
  return towers.flatMap((tower, at) => [
    ...placed(tower, "embedding", at === 0 ? embeddingStages(trace, tower) : decoderInputStages(trace, code)),
    ...layer(trace, tower),
    ...placed(tower, "end", stackStages(trace, tower, code)),
    ...placed(tower, "head", at === towers.length - 1 ? predictionStages(trace, code) : []),
  ]);
}

function layer(trace, tower) {
  const { model } = trace;
  const subs = [
    ["self_attention", attention(tower === "encoder" ? "bidirectional" : "causal", model)],
    ...(hasCrossAttention(trace) && tower === "decoder" ? [["cross_attention", attention("cross", model)]] : []),
    ["feed_forward", feedForward(model)],
  ];
  return subs.flatMap(([sub, stages]) => placed(tower, sub, model.pre_norm ? [norm(model), ...stages] : [...stages, norm(model)]));
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

/** Return the stages from a text to the vectors that enter the first layer. */
function embeddingStages(trace, tower) {
  const { model } = trace;
  const scaled = model.scale_embeddings;
  const tokens = `${tower}.embedding.tokens`;
  const raw = (c) => ({ ...c.M(tokens), data: c.M(tokens).data.map((value) => value / (scaled ? Math.sqrt(c.E) : 1)) });
  return [
    {
      id: "tokens", title: "Tokenization", code: [["Tokenizer.encode", "data/tokenizers/tokenizer.py"]],
      explanation: `The text is split into tokens from a vocabulary learned from the training set. Frequent words are one token, rare ones several.${addedTokens(trace)}`,
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
    ...(normalizesEmbedding(trace) ? [embeddingNorm()] : []),
  ];
}

/** A sentence on the special tokens that frame the source. */
function addedTokens(trace) {
  const added = [...new Set(trace.source.tokens.filter(({ special, start, end }) => special && start === end).map(({ text }) => quote(text)))];
  if (added.length === 0) return "";
  if (hasCrossAttention(trace) && trace.source.tokens[0].special) return ` The special token ${added[0]} is added; it selects the target language.`;
  return added.length === 1 ? ` The special token ${added[0]} is added.` : ` The special tokens ${added.slice(0, -1).join(", ")} and ${added.at(-1)} are added to every text.`;
}

/** Whether the sum of the embeddings is normalized before the first layer, as in most encoders that stand alone. */
function normalizesEmbedding(trace) {
  return trace.interface === "TextEncoder" && trace.model.embedding_norm !== false;
}

/** The position encoding: added to the embedding, or nothing with rotary positions. */
function positions(trace, tower) {
  const { model } = trace;
  const point = (name) => `${tower}.embedding.${name}`;
  const adds = model.positions !== "rope" && model.positions !== "none";
  const parts = ["tokens", ...(adds ? ["positions"] : []), ...(model.n_segments > 0 ? ["segments"] : [])];
  const ends = normalizesEmbedding(trace) ? [] : ["output"];
  const learned = model.positions === "learned";
  const panels = { tokens: ["token", "residual"], positions: ["position encoding", "position"], segments: ["segment embedding", "position"], output: ["input of layer 0", "residual"] };
  const segments = parts.includes("segments") ? " A segment embedding marks which text of a pair the token belongs to." : "";
  return {
    id: "positions", title: adds ? "+ position" : "Position", code: adds && !learned ? [["Embedding.position_encoding", "model/embedding.py"], ["sinusoid_table", "model/positions.py"]] : model.positions === "rope" ? [["rotate", "model/positions.py"]] : [["Embedding.position_encoding", "model/embedding.py"]],
    explanation: adds
      ? `Attention alone ignores word order, so an encoding of the position is added: ${learned ? "a row of a second learned matrix" : "sines and cosines of many wavelengths"}.${segments || (learned ? "" : " Nearby positions have similar encodings.")}`
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
    explanation: "The sum is normalized before the first layer: subtract the mean, divide by the standard deviation, then apply a learned gain and shift.",
    formula: normFormula({}, "layer", true), names: (c) => ["tokens", ...(/rope|none/.test(c.m.positions) ? [] : ["positions"]), ...(c.m.n_segments > 0 ? ["segments"] : []), "output"].map(point),
    weights: (c) => c.normNeeds("embedding.norm", "layer", true),
    show: (c) => [{ ...c.full(point("tokens"), "sum", "residual"), matrix: sum(c) }, "→", c.full(point("output"), "input of layer 0", "residual")],
    sum: (c) => [`Dimension ${c.j} for ${quote(c.rowNames[c.row])}:`, ...normLines(c, "embedding.norm", rowOf(sum(c), c.row), c.j, rowOf(c.M(point("output")), c.row)[c.j], c.m.norm_eps, "layer")],
  };
}

/** Return the first stages of the decoder: its input tokens and their positions. */
function decoderInputStages(trace, code) {
  return [{
    id: "tokens", title: "Decoder inputs", code: [method(code, "step"), method(code, "decode")],
    explanation: "The decoder generates one token after another. At each step it reads the previous token (first, a start token) and predicts the next one.",
    formula: "input → output", names: () => [],
    show: (c) => [chips(c.rowNames, c.trace.target.tokens.map(({ text }) => `→ ${text}`), c.row, (row) => c.pick("row", row))],
    sum: (c) => [`Step ${c.row + 1}: input ${quote(c.rowNames[c.row])}, output ${quote(c.trace.target.tokens[c.row].text)}`],
  }, positions(trace, "decoder")];
}

/** Return the stages after a tower's layer: the layers above it, and the final norm. */
function stackStages(trace, tower, code) {
  const post = !trace.model.pre_norm;
  const isEncoder = hasCrossAttention(trace) && tower === "encoder";
  const rows = (c) => [`${tower}.embedding.output`, ...c.outputs()];
  const final = {
    id: "final_norm", title: "Final norm", code: [["Stack.forward", "model/layers.py"]],
    explanation: "In a pre-norm model the residual stream itself is never normalized. A final norm does this after the last layer.",
    formula: normFormula(trace.model), names: (c) => c.outputs().slice(-2),
    weights: (c) => c.normNeeds(`${tower}.final_norm`),
    show: (c) => [c.full(c.outputs().at(-2), "output of the last layer", "residual"), "→", c.full(c.outputs().at(-1), "norm", "residual")],
    sum: (c) => [`Dimension ${c.j} for ${quote(c.rowNames[c.row])}:`, ...normLines(c, `${tower}.final_norm`, rowOf(c.M(c.outputs().at(-2)), c.row), c.j, rowOf(c.M(c.outputs().at(-1)), c.row)[c.j])],
  };
  const onward = {
    id: "layers", title: "Stack of layers", code: [["Stack.forward", "model/layers.py"], ...(isEncoder ? [method(code, "encode")] : [])],
    explanation: `Every further layer repeats these steps with its own weights, on vectors that already contain context.${isEncoder ? " The output of the last one is the encoder output: one contextual vector per token." : ""}`,
    formula: "x → layer 0 → layer 1 → …", names: rows,
    show: (c) => [{ title: `residual stream of ${quote(c.rowNames[c.row])} by layer`, idea: "residual", rowNames: rows(c).map((_, at) => (at === 0 ? "input" : at > c.count ? "final norm" : `layer ${at - 1}`)), matrix: { rows: rows(c).length, columns: c.E, data: Float32Array.from(rows(c).flatMap((name) => [...rowOf(c.M(name), c.row)])) }, row: Math.min(c.layer + 1, rows(c).length - 1), column: c.j, picks: "layer", sequences: [null] }],
    sum: (c) => [`Dimension ${c.j} for ${quote(c.rowNames[c.row])}: ${rows(c).map((name) => short(rowOf(c.M(name), c.row)[c.j])).join(" → ")}`],
  };
  return post ? [onward] : [onward, final];
}

/** Return the stages from the last hidden state to a token or class. */
function predictionStages(trace, code) {
  const { predicts, model, steps, source } = trace;
  if (steps.length === 0) return [];
  const [classes, generates] = [predicts === "classes", predicts === "tokens"];
  const whole = classes && steps[0].row === 0;
  const head = generates ? "logits" : whole ? "sequence_classification" : classes ? "token_classification" : "mlm";
  const part = generates ? "output" : classes && !whole ? `heads.${head}` : null; // where the logits are one linear map of the hidden state
  const biasesLogits = part === "output" ? model.output_bias : true;
  const things = classes ? "classes" : "tokens";
  const stepOf = (c) => c.trace.steps[c.step];
  const chosen = (c) => stepOf(c).candidates[stepOf(c).chosen];
  const scores = (c) => stepOf(c).candidates.map(({ id, text }) => ({ text, value: c.activations.logits(stepOf(c).row)[id] }));
  const last = (c) => ({ ...c.full(c.outputs().at(-1), "last hidden states", "residual"), row: stepOf(c).row });
  const whose = (c) => quote(c.rowNames[stepOf(c).row]);
  return [
    {
      id: "logits", title: "Linear: logits", code: [method(code, head), ...(whole ? [method(code, "pool")] : [])],
      explanation: whole
        ? `A text is classified by ${model.pooling === "mean" ? "the mean of the hidden states of all its tokens" : `the hidden state of its first token, ${quote(source.tokens[0].text)}, which attends to all others`}. A pooling layer and a linear layer give a logit for each class.`
        : predicts === "masks"
          ? "At the mask, the last hidden state passes through one more layer and is multiplied with the embedding of every token in the vocabulary, which gives a logit for each."
          : classes
            ? "A linear layer gives a logit for each class, from the hidden state of the word's first token. All words are classified at once."
            : `The last hidden state is multiplied with a learned row for each token of the vocabulary${model.tie_embeddings ? " (tied to the embedding matrix)" : ""}, which gives a logit for each.`,
      formula: `logit = x · w${part !== null && biasesLogits ? " + b" : ""}`, names: (c) => [c.outputs().at(-1)], scores: (c) => stepOf(c).row,
      weights: (c) => (part === null ? [] : needs(c, part, chosen(c).id, biasesLogits)),
      show: (c) => [last(c), "→", bars(`logits of the most likely ${things}`, "weight", scores(c), stepOf(c).chosen)],
      sum: (c) => {
        const made = part === null ? null : linear(c, part, chosen(c).id, rowOf(c.M(c.outputs().at(-1)), stepOf(c).row), "logit");
        return [`For ${quote(chosen(c).text)} (id ${chosen(c).id}) at ${whose(c)}:`, ...(made?.lines ?? [`logit = ${short(scores(c)[stepOf(c).chosen].value)}`])];
      },
    },
    {
      id: "probabilities", title: "Softmax: probabilities", code: [["build_steps", "tracing/likelihood.py"]],
      explanation: `e to the power of each logit, divided by the sum over all ${things}: probabilities that sum to 1.`,
      formula: "probability = e^logit ÷ Σ e^logit", names: () => [], scores: (c) => stepOf(c).row,
      show: (c) => [bars("logits", "weight", scores(c), stepOf(c).chosen), "→", bars("probabilities", "probability", stepOf(c).candidates.map(({ text, probability }) => ({ text, value: probability })), stepOf(c).chosen)],
      sum: (c) => {
        const all = c.activations.logits(stepOf(c).row);
        const sum = all.reduce((total, value) => total + Math.exp(value), 0);
        const own = all[chosen(c).id];
        return [`For ${quote(chosen(c).text)} at ${whose(c)}:`, `e^${inside(own)} ÷ (sum over all ${all.length}) = ${short(Math.exp(own))} ÷ ${short(sum)} = ${short(chosen(c).probability)}`];
      },
    },
    !generates ? {
      id: "word", title: classes ? "Predicted class" : "Predicted token", code: [classes ? [whole ? "Classifier.classify" : "Classifier.tag", "pipelines/classifier.py"] : ["Filler.fill", "pipelines/filler.py"]],
      explanation: classes ? "The class with the highest probability is the prediction." : "The token with the highest probability replaces the mask. Each mask is predicted independently.",
      formula: "prediction = argmax", names: () => [],
      show: (c) => [chips(c.trace.steps.map(({ candidates, chosen: at }) => candidates[at].text), c.trace.steps.map(({ candidates, chosen: at }) => short(candidates[at].probability)), c.step, (at) => c.pick("row", c.trace.steps[at].row))],
      sum: (c) => [`${whose(c)} → ${quote(chosen(c).text)}, ${short(chosen(c).probability)}`],
    } : {
      id: "word", title: "Next token", code: [["greedy_tokens", "decoding/sequential.py"], ["BeamSearch", "decoding/beam.py"]],
      explanation: "One token is chosen: the most likely one, or the one of the best hypothesis of a beam search. It is appended to the output and becomes the next input, until the end token.",
      formula: "output ← output + token", names: () => [],
      show: (c) => [chips(c.trace.target.tokens.map(({ text }) => text), c.trace.steps.map(({ log_probability: log }) => short(Math.exp(log))), c.step, (at) => c.pick("row", c.trace.steps[at].row))],
      sum: (c) => [`Step ${c.step + 1} of ${steps.length}: input ${whose(c)}, output ${quote(chosen(c).text)}, probability ${short(chosen(c).probability)}`],
    },
  ];
}
