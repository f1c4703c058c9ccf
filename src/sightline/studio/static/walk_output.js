// The stages after a layer: the layers above it, the final norm, and the prediction of a token or class.

import { short } from "/drawing/numbers.js";
import { quote } from "/drawing/token_text.js";
import { bars, chips } from "./walk_panel.js";
import { inside, linear, needs, normLines, rowOf } from "./walk_formulas.js";

/** Return the stages after a tower's layer: the layers above it, and the final norm. */
export function stackStages({ model, family }, tower) {
  const post = !model.pre_norm;
  const isEncoder = family === "transformer" && tower === "encoder";
  const rows = (c) => [`${tower}.embedding.output`, ...c.outputs()];
  const final = {
    id: "final_norm", title: "Final norm", code: [["Stack.forward", "model/layers.py"]],
    explanation: "In a pre-norm model the residual stream itself is never normalized. A final norm does this after the last layer.",
    formula: "norm(x) = (x − mean) ÷ deviation · gain + shift", names: (c) => c.outputs().slice(-2),
    weights: (c) => c.normNeeds(`${tower}.final_norm`),
    show: (c) => [c.full(c.outputs().at(-2), "output of the last layer", "residual"), "→", c.full(c.outputs().at(-1), "norm", "residual")],
    sum: (c) => [`Dimension ${c.j} for ${quote(c.rowNames[c.row])}:`, ...normLines(c, `${tower}.final_norm`, rowOf(c.M(c.outputs().at(-2)), c.row), c.j, rowOf(c.M(c.outputs().at(-1)), c.row)[c.j])],
  };
  const onward = {
    id: "layers", title: "Stack of layers", code: [["Stack.forward", "model/layers.py"], ...(isEncoder ? [["Transformer.encode", "model/transformer.py"]] : [])],
    explanation: `Every further layer repeats these steps with its own weights, on vectors that already contain context.${isEncoder ? " The output of the last one is the encoder output: one contextual vector per token." : ""}`,
    formula: "x → layer 0 → layer 1 → …", names: rows,
    show: (c) => [{ title: `residual stream of ${quote(c.rowNames[c.row])} by layer`, idea: "residual", rowNames: rows(c).map((_, at) => (at === 0 ? "input" : at > c.count ? "final norm" : `layer ${at - 1}`)), matrix: { rows: rows(c).length, columns: c.E, data: Float32Array.from(rows(c).flatMap((name) => [...rowOf(c.M(name), c.row)])) }, row: Math.min(c.layer + 1, rows(c).length - 1), column: c.j, picks: "layer", sequences: [null] }],
    sum: (c) => [`Dimension ${c.j} for ${quote(c.rowNames[c.row])}: ${rows(c).map((name) => short(rowOf(c.M(name), c.row)[c.j])).join(" → ")}`],
  };
  return post ? [onward] : [onward, final];
}

/** Return the stages from the last hidden state to a token or class. */
export function predictionStages(trace) {
  const { family, task, model, steps } = trace;
  if (steps.length === 0) return [];
  const classes = family === "bert" && task === "classification";
  const whole = classes && steps[0].row === 0;
  const method = family === "transformer" ? ["Transformer.logits", "model/transformer.py"] : family === "gpt" ? ["GPT.logits", "model/gpt.py"] : [whole ? "Bert.sequence_classification" : classes ? "Bert.token_classification" : "Bert.mlm", "model/bert.py"];
  const part = family !== "bert" ? "output" : classes && !whole ? "heads.token_classification" : null; // where the logits are one linear map of the hidden state
  const things = classes ? "classes" : "tokens";
  const stepOf = (c) => c.trace.steps[c.step];
  const chosen = (c) => stepOf(c).candidates[stepOf(c).chosen];
  const scores = (c) => stepOf(c).candidates.map(({ id, text }) => ({ text, value: c.activations.logits(stepOf(c).row)[id] }));
  const last = (c) => ({ ...c.full(c.outputs().at(-1), "last hidden states", "residual"), row: stepOf(c).row });
  const whose = (c) => quote(c.rowNames[stepOf(c).row]);
  return [
    {
      id: "logits", title: "Linear: logits", code: whole ? [method, ["Bert.pool", "model/bert.py"]] : [method],
      explanation: whole
        ? "BERT classifies a text by the hidden state of its first token, [CLS], which attends to all others. A pooling layer and a linear layer give a logit for each class."
        : family === "bert" && !classes
          ? "At the mask, the last hidden state passes through one more layer and is multiplied with the embedding of every token in the vocabulary, which gives a logit for each."
          : classes
            ? "A linear layer gives a logit for each class, from the hidden state of the word's first token. All words are classified at once."
            : `The last hidden state is multiplied with a learned row for each token of the vocabulary${model.tie_embeddings ? " (tied to the embedding matrix)" : ""}, which gives a logit for each.`,
      formula: "logit = x · w", names: (c) => [c.outputs().at(-1)], scores: (c) => stepOf(c).row,
      weights: (c) => (part === null ? [] : needs(c, part, chosen(c).id, part === "output" ? model.output_bias : true)),
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
    family === "bert" ? {
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
