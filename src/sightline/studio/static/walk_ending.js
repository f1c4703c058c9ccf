// The stages after a layer: the layers above it, the last norm, and the way from the last vector to a word or a class.

import { short } from "/drawing/numbers.js";
import { quoted } from "/drawing/texts.js";
import { bars, chips } from "./walk_panel.js";
import { inside, linear, needs, normed, rowOf } from "./walk_sums.js";

/** Return the stages after a tower's layer: those above it, and the last norm. */
export function ending({ model, family }, tower) {
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
    show: (c) => [{ title: `the vector of ${quoted(c.rowNames[c.row])} from layer to layer`, idea: "residual", rowNames: rows(c).map((_, at) => (at === 0 ? "enters" : at > c.count ? "last norm" : `layer ${at - 1}`)), matrix: { rows: rows(c).length, columns: c.E, data: Float32Array.from(rows(c).flatMap((name) => [...rowOf(c.M(name), c.row)])) }, row: Math.min(c.layer + 1, rows(c).length - 1), column: c.j, picks: "layer", passages: [null] }],
    sum: (c) => [`Number ${c.j} for ${quoted(c.rowNames[c.row])}: ${rows(c).map((name) => short(rowOf(c.M(name), c.row)[c.j])).join(" → ")}`],
  };
  return post ? [onward] : [onward, final];
}

/** Return the stages from the last vector to a word, or a class. */
export function deciding(trace) {
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
  return [
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
  ];
}
