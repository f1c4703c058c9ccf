// The form of Watch: a text, and the options for this kind of model.

import { element, fill } from "/drawing/dom.js";
import { extraInputs } from "./extra_inputs.js";

const KINDS = {
  translation: { label: "Text to translate", verb: "Translate" },
  chat: { label: "Message", verb: "Reply" },
  "language-model": { label: "Prompt", verb: "Continue" },
  "masked-language-model": { label: "Text with [MASK]", verb: "Fill" },
  classification: { label: "Text to classify", verb: "Classify" },
};
const OTHER = { label: "Text", verb: "Run" };
const WRITES = ["translation", "chat", "language-model"];

/** Create the form: {node, values, problem}, the current values and a function that shows an error. */
export function createForm(model, params, submit) {
  const { label, verb } = KINDS[model.task] ?? OTHER;
  const text = element("input", { type: "text", "aria-label": label, placeholder: `${label} …`, autocomplete: "off", spellcheck: "false", dir: "auto" });
  text.value = params.get("text") ?? model.example.text;
  const writes = WRITES.includes(model.task);
  const isLM = model.task === "language-model";
  const to = model.languages.length > 1 ? select("To", model.languages.map((language) => [language, languageName(language)]), params.get("to") ?? model.example.to) : null;
  const beam = writes ? select("Beam", [["1", "1"], ["4", "4"], ["8", "8"]], params.get("beam") ?? (isLM ? "1" : "4"), "Beam size: hypotheses kept at each step") : null;
  const length = isLM ? select("Tokens", ["10", "20", "40", "100", "200"].map((count) => [count, count]), params.get("length") ?? "20", "Maximum number of new tokens") : null;
  const { within, below, values } = extraInputs(model, params, submit);
  const problem = element("p", { class: "problem", role: "alert" });
  const go = element("button", { type: "submit", class: "main" }, verb);
  const node = element("form", { class: "ask", on: { submit: (event) => { event.preventDefault(); submit(); } } }, text, within, ...[to, beam, length].map((one) => one?.node), go);
  const value = (one) => one?.input.value ?? null;
  return {
    node: element("div", {}, node, below, problem),
    values: () => ({ text: text.value, to: value(to), beam: value(beam), length: value(length), ...values() }),
    problem: (message) => fill(problem, message),
  };
}

function select(label, options, chosen, title = null) {
  const input = element("select", { "aria-label": label }, ...options.map(([value, name]) => element("option", { value }, name)));
  const there = options.some(([value]) => value === chosen);
  input.value = there ? chosen : options[0][0];
  return { input, node: element("label", { class: "choice", title }, `${label} `, input) };
}

/** The name of a language, if the browser knows it. */
function languageName(language) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(language);
  } catch {
    return language;
  }
}
