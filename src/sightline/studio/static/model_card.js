// What a model is, for people, from its card: a sentence and a line of facts; inputs of its validation set to try; and a note
// on an input that is unlike anything it has seen.

import { button, element, fill } from "/page/dom.js";
import { clip, groupDigits, short } from "/page/text.js";

const NAMES = { bleu: "BLEU", chrf: "chrF", f1: "F1" };
/** What scores mean, the most telling first: a unit, and words for a newcomer. */
const SCORES = {
  bleu: [" of 100", "How much of the reference texts it reproduces: 100 is the same words in the same order"],
  accuracy: [" %", "Share of predictions that are right"],
  f1: [" %", "Precision and recall in one number, over all classes"],
  exact_match: [" %", "Share of outputs that are exactly the reference"],
  chrf: [" of 100", "Letters shared with the reference texts: 100 is the same text"],
  perplexity: ["", "Between how many equally likely tokens it hesitates on average: 1 is certainty"],
};
const MAX_SCORES = 2;
const MAX_FILES = 3;
const EXAMPLE_LENGTH = 60;
const REFERENCE_LENGTH = 160;

/** The title of a score. */
export function titleOf(name) {
  return NAMES[name] ?? name.replaceAll("_", " ").replace(/^./, (letter) => letter.toUpperCase());
}

/** The name of a language, if the browser knows it. */
export function languageName(language) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(language);
  } catch {
    return language;
  }
}

/** Return what a model is in two lines: what it does, and what is known of its training. */
export function aboutModel({ id, parameters, about }) {
  const { does, files, n_examples: n, n_validation: held, scores } = about;
  const trained = n === null ? null : element("span", {}, `Trained on ${groupDigits(n)} examples`, files.length > 0 ? ` from ${listed(files.map(plainName), MAX_FILES)}` : "");
  const told = Object.entries(SCORES).filter(([name]) => name in scores).slice(0, MAX_SCORES).map(([name, [unit, meaning]]) => element("abbr", { title: meaning }, `${titleOf(name)} ${short(scores[name])}${unit}`));
  const tested = told.length === 0 ? null : element("span", {}, ...told.flatMap((one, at) => (at === 0 ? [one] : [", ", one])), held === null ? "" : ` on ${groupDigits(held)} others`);
  const facts = [trained, tested, element("span", {}, `${counted(parameters)} parameters`)].filter((one) => one !== null);
  return [
    element("p", { class: "what" }, element("b", {}, id), ` ${does ?? "reads text"}. `, element("span", { class: "offer" }, "Everything below is computed by this model from your text.")),
    element("p", { class: "facts" }, ...facts.flatMap((one, at) => (at === 0 ? [one] : [" · ", one]))),
  ];
}

/** The name of a file without the hash of one that the program made. */
function plainName(file) {
  return file.replace(/-[0-9a-f]{12}(?=\.|$)/, "");
}

function listed(names, most) {
  const some = names.length > most ? [...names.slice(0, most - 1), `${names.length - most + 1} more`] : names;
  return some.length === 1 ? some[0] : `${some.slice(0, -1).join(", ")} and ${some.at(-1)}`;
}

/** A large number in words. */
function counted(number) {
  const [size, unit] = [[1e9, " billion"], [1e6, " million"]].find(([least]) => number >= least) ?? [1, ""];
  return size === 1 ? groupDigits(number) : `${Number((number / size).toPrecision(3))}${unit}`;
}

/**
 * Create what helps with an input: {node, check}. The examples call `choose(example)`; `check(input, to)` tells whether the input, a text or
 * several, is unlike the training data, and what the validation set says of it.
 */
export function inputHelp({ model, fetchJson }, choose) {
  const chips = model.examples.map((one) => button(clip(one.text, EXAMPLE_LENGTH), () => choose(one), { class: "example", dir: "auto", title: [one.second, one.to && `into ${languageName(one.to)}`].filter(Boolean).join("; ") || null }));
  const offered = element("div", { class: "examples scroller", role: "group", "aria-label": "Examples from the validation set", hidden: chips.length === 0 },
    element("span", { class: "note", title: "Inputs of the validation set, which the model was not trained on" }, "Try"), ...chips);
  const strange = element("p", { class: "warning unfamiliar", role: "status", hidden: true });
  const expected = element("p", { class: "note expected", hidden: true });
  let asked = null;

  async function check(input, to = null) {
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    const texts = [input].flat();
    const known = model.examples.find(({ text, second, to: into }) => text === texts.at(second === null ? -1 : 0) && (second === null || second === texts[1]) && (into === null || to === null || into === to));
    expected.hidden = !known?.reference;
    fill(expected, known?.reference ? `In the validation set: “${clip(known.reference, REFERENCE_LENGTH)}”` : "");
    strange.hidden = true;
    if (!model.about.checks_inputs || texts.join("").trim() === "") return;
    try {
      const { note } = await fetchJson(`/v1/models/${model.id}/unfamiliar`, { input }, { signal });
      if (signal.aborted) return;
      strange.hidden = note === null;
      fill(strange, note ?? "");
    } catch {
      // the answer itself says what is wrong
    }
  }
  return { node: element("div", { class: "input-help" }, offered, strange, expected), check };
}
