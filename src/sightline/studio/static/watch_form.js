// The form of Watch: a text, and what else this kind of model can be asked for.

import { element, fill } from "/drawing/dom.js";
import { beside } from "./beside.js";

const KINDS = {
  translation: { label: "A sentence to translate", verb: "Translate" },
  chat: { label: "What you say", verb: "Answer" },
  "language-model": { label: "The beginning of a text", verb: "Continue" },
  "masked-language-model": { label: "A text, [MASK] for every gap", verb: "Fill" },
  classification: { label: "A text to classify", verb: "Classify" },
};
const OTHER = { label: "A text to read", verb: "Read" };
const WRITES = ["translation", "chat", "language-model"];

/** Make the form; return {node, wishes, problem}: what is wished for, and a function that says what went wrong. */
export function asking(model, place, submit) {
  const { label, verb } = KINDS[model.task] ?? OTHER;
  const text = element("input", { type: "text", "aria-label": label, placeholder: `${label} …`, autocomplete: "off", spellcheck: "false", dir: "auto" });
  text.value = place.get("text") ?? model.example.text;
  const writes = WRITES.includes(model.task);
  const goes = model.task === "language-model";
  const to = model.languages.length > 1 ? select("Into", model.languages.map((language) => [language, named(language)]), place.get("to") ?? model.example.to) : null;
  const beam = writes ? select("Beam", [["1", "1"], ["4", "4"], ["8", "8"]], place.get("beam") ?? (goes ? "1" : "4"), "How many beginnings the search keeps in mind at once") : null;
  const length = goes ? select("Tokens", ["10", "20", "40", "100", "200"].map((count) => [count, count]), place.get("length") ?? "20", "The most that are written") : null;
  const { within, below, wishes } = beside(model, place, submit);
  const problem = element("p", { class: "problem", role: "alert" });
  const go = element("button", { type: "submit", class: "main" }, verb);
  const node = element("form", { class: "ask", on: { submit: (event) => { event.preventDefault(); submit(); } } }, text, within, ...[to, beam, length].map((one) => one?.node), go);
  const value = (one) => one?.input.value ?? null;
  return {
    node: element("div", {}, node, below, problem),
    wishes: () => ({ text: text.value, to: value(to), beam: value(beam), length: value(length), ...wishes() }),
    problem: (sentence) => fill(problem, sentence),
  };
}

function select(label, options, chosen, title = null) {
  const input = element("select", { "aria-label": label }, ...options.map(([value, name]) => element("option", { value }, name)));
  const there = options.some(([value]) => value === chosen);
  input.value = there ? chosen : options[0][0];
  return { input, node: element("label", { class: "choice", title }, `${label} `, input) };
}

/** How a language is called, where the browser knows. */
function named(language) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(language);
  } catch {
    return language;
  }
}
