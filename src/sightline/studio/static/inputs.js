// Inputs shared by several views: besides the text, earlier turns of a conversation or the second text of a pair; and undo
// and redo for a text area.

import { button, element } from "/page/dom.js";
import { languageName } from "./model_card.js";

const KINDS = { turns: earlierTurns, pair: secondText, "optional pair": secondText };

/** Return the elements for the form (`within` it and `below` it), `values()`, the parameters for the URL, and `other`, whose value is the second text. */
export function extraInputs(model, params, submit) {
  const { within = null, below = null, values, other = {} } = KINDS[model.view.extra_input]?.(model, params, submit) ?? {};
  return { within, below, other, values: () => ({ before: null, second: null, ...values?.() }) };
}

/** Return the `input` of a request: the text, the turns of a conversation, or a pair. */
export function requestInput({ text, before, second }) {
  if (before !== null) return [...parseTurns(before), text];
  return second === null ? text : [text, second];
}

/** Earlier turns, which the model reads too unless they are removed. */
function earlierTurns(model, params, submit) {
  let turns = parseTurns(params.get("before"));
  if (turns.length === 0) return {};
  const node = element("p", { class: "earlier" }, "Earlier turns: ", ...turns.map((turn) => element("bdi", { class: "token" }, turn)),
    button("Remove", () => {
      turns = [];
      node.remove();
      submit();
    }));
  return { below: node, values: () => ({ before: turns.length > 0 ? JSON.stringify(turns) : null }) };
}

/** Parse the turns in a URL; anything else gives none. */
export function parseTurns(text) {
  try {
    const turns = JSON.parse(text ?? "[]");
    return Array.isArray(turns) && turns.every((turn) => typeof turn === "string") ? turns : [];
  } catch {
    return [];
  }
}

/**
 * The choice of the target language: {node, value, choose}; `value()` is null where the model finds it itself, and for a model that has
 * none to choose, whose node is null, too.
 */
export function targetChoice(model, params) {
  if (model.languages.length < 2) return { node: null, value: () => null, choose: () => {} };
  const languages = model.languages.map((code) => [code, languageName(code)]);
  const options = model.chooses_target ? [["", "the other language"], ...languages] : languages;
  const input = element("select", { "aria-label": "To" }, ...options.map(([value, name]) => element("option", { value }, name)));
  const wanted = params.get("to") ?? (model.chooses_target ? "" : model.example.to);
  input.value = options.some(([value]) => value === wanted) ? wanted : options[0][0];
  return {
    node: element("label", { class: "choice" }, "To ", input),
    value: () => input.value || null,
    /** Take the language of an example, unless the model finds it itself. */
    choose: (language) => {
      if (language !== null && input.value !== "") input.value = language;
    },
  };
}

/** The second text of a pair. */
function secondText(model, params) {
  const first = params.get("second") ?? (params.get("text") === null ? model.example.second : null);
  const optional = model.view.extra_input === "optional pair";
  if (optional && first === null && model.examples.every(({ second }) => second === null)) return {};
  const input = element("input", { type: "text", "aria-label": "Second text", placeholder: optional ? "Second text (optional)" : "Second text", autocomplete: "off", spellcheck: "false", dir: "auto" });
  input.value = first ?? "";
  return { within: input, other: input, values: () => ({ second: input.value === "" ? null : input.value }) };
}

/** Keep the undo history of a text area; `changed(text)` is called for every new text. */
export function undoHistory(area, changed) {
  const [before, after] = [[], []];
  let now = area.value;
  let typing = false;
  const put = (text) => {
    area.value = now = text;
    changed(text);
  };
  const go = (from, to) => {
    if (from.length === 0) return;
    typing = false;
    to.push(area.value);
    put(from.pop());
  };
  /** Replace the text, with undo. */
  const set = (text) => {
    typing = false;
    if (text === now) return;
    before.push(now);
    after.length = 0;
    put(text);
  };
  area.addEventListener("input", () => {
    if (!typing || /\s$/.test(now)) before.push(now); // a word at a time
    typing = true;
    after.length = 0;
    now = area.value;
    changed(now);
  });
  area.addEventListener("keydown", (event) => {
    const key = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || !["z", "y"].includes(key)) return;
    event.preventDefault();
    if (key === "y" || event.shiftKey) go(after, before);
    else go(before, after);
  });
  return { set, undo: () => go(before, after), redo: () => go(after, before), canUndo: () => before.length > 0, canRedo: () => after.length > 0 };
}
