// Classify: the class probabilities of a text, a pair of texts, or every word of a text.

import { button, element, fill } from "/page/dom.js";
import { saveButton } from "/page/export.js";
import { quote, short, visible } from "/page/text.js";
import { endpointOf } from "../api.js";
import { inputHelp } from "../model_card.js";
import { bars, errorLine, watchLink } from "../view_parts.js";

/** Draw the view into an element; return a function that removes it. */
export function mount(host, app) {
  const { model, fetchJson, params } = app;
  const first = element("textarea", { rows: 2, "aria-label": "Text", spellcheck: "false", dir: "auto" });
  first.value = params.get("text") ?? model.example?.text ?? "";
  const extra = model.view.extra_input;
  const linked = params.get("second") ?? (params.get("text") === null ? model.example?.second ?? null : null);
  const beside = extra === null ? null : extra === "pair" ? linked ?? "" : linked;
  const second = element("textarea", { rows: 2, "aria-label": "Second text", spellcheck: "false", dir: "auto", hidden: beside === null });
  second.value = beside ?? "";
  const found = element("div");
  const { problem, attempt } = errorLine(() => fill(found));
  const help = inputHelp(app, (example) => {
    [first.value, second.value] = [example.text, example.second ?? ""];
    if (extra === "optional pair") second.hidden = example.second === null;
    show({ chosen: true });
  });
  const look = element("span");
  let asked = null;
  const pair = button("", () => {
    second.hidden = !second.hidden;
    show({ chosen: true });
  }, { hidden: extra !== "optional pair" });

  function show({ chosen = false } = {}) {
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    const alone = second.hidden;
    pair.textContent = alone ? "Add a second text" : "Remove the second text";
    params[chosen ? "go" : "set"]({ text: first.value, second: alone ? null : second.value });
    help.check(alone ? first.value : [first.value, second.value]);
    fill(look, watchLink(model, { text: first.value, ...(alone ? {} : { second: second.value }) }));
    if (first.value.trim() === "" || (extra === "pair" && second.value.trim() === "")) return fill(found);
    const given = alone ? { input: first.value } : { pairs: [[first.value, second.value]] };
    return attempt(async () => {
      const { data: [one] } = await fetchJson(endpointOf(model), { model: model.id, ...given }, { signal });
      if (signal.aborted) return;
      const words = Array.isArray(one);
      const whole = element("div", { class: "view" }, ...(words ? labeledWords(one) : [element("h3", {}, "Class probabilities"), classes(one)]));
      whole.append(saveButton("classify", whole, () => one));
      fill(found, whole);
    });
  }

  const keys = (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    show({ chosen: true });
  };
  for (const area of [first, second]) {
    area.addEventListener("keydown", keys);
    area.addEventListener("change", () => show({ chosen: true }));
  }
  fill(host, element("section", { class: "classify", "aria-labelledby": "classify-title" },
    element("h2", { id: "classify-title" }, "Text classification"),
    element("p", { class: "explanation" }, "The model reads the whole text at once and predicts a probability for each class; they sum to 1. A token classifier does this for every word."),
    first, second, help.node, element("div", { class: "ask" }, button("Classify", () => show({ chosen: true }), { class: "main" }), pair, look), problem, found));
  show();
  return () => {
    asked?.abort();
    fill(host);
  };
}

function classes({ probabilities, label }) {
  const items = Object.entries(probabilities).map(([text, probability]) => ({ text, probability }));
  items.sort((one, other) => other.probability - one.probability);
  return bars(items, { chosen: items.findIndex(({ text }) => text === label) });
}

/** Words with their labels, and the class probabilities of the selected one. */
function labeledWords(words) {
  const detail = element("div");
  const chips = words.map((one, index) => {
    const chip = button("", () => choose(index), { class: "token", "aria-pressed": "false", tabindex: -1 });
    chip.append(element("span", {}, visible(one.word)), element("b", {}, one.label), element("small", { class: "number" }, short(one.probability)));
    return chip;
  });
  const choose = (index) => {
    chips.forEach((chip, at) => {
      chip.ariaPressed = String(at === index);
      chip.tabIndex = at === index ? 0 : -1;
    });
    fill(detail, element("h3", {}, `Class probabilities of ${quote(words[index].word)}`), classes(words[index]));
  };
  const walk = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(chips.length - 1, chips.indexOf(document.activeElement) + by));
    choose(next);
    chips[next].focus();
  };
  if (words.length > 0) choose(0);
  return [element("h3", {}, "Class of each word"), element("div", { class: "tagged", role: "group", "aria-label": "Words and their classes", on: { keydown: walk } }, ...chips), detail];
}
