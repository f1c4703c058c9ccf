// Classify: a text or a pair of texts, or every word of a text, and how likely each class is.

import { button, element, fill } from "/drawing/dom.js";
import { short } from "/drawing/numbers.js";
import { saving } from "/drawing/saving.js";
import { quoted, visible } from "/drawing/texts.js";
import { bars, inside, styled, trying } from "./write_parts.js";

/** Draw the view into an element; return a function that removes it. */
export function mount(host, { model, ask, place }) {
  styled("write");
  const first = element("textarea", { rows: 2, "aria-label": "Text", spellcheck: "false", dir: "auto" });
  first.value = place.get("text") ?? model.example?.text ?? "";
  const second = element("textarea", { rows: 2, "aria-label": "Second text", spellcheck: "false", dir: "auto", hidden: place.get("second") === null });
  second.value = place.get("second") ?? "";
  const { problem, attempt } = trying();
  const found = element("div");
  const look = element("span");
  let asked = null;
  const pair = button("", () => {
    second.hidden = !second.hidden;
    show();
  });

  function show() {
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    const alone = second.hidden;
    pair.textContent = alone ? "Add a second text" : "One text only";
    place.set({ text: first.value, second: alone ? null : second.value });
    fill(look, inside(model, { text: first.value, ...(alone ? {} : { second: second.value }) }));
    if (first.value.trim() === "") return fill(found);
    const given = alone ? { input: first.value } : { pairs: [[first.value, second.value]] };
    return attempt(async () => {
      const { data: [one] } = await ask("/classify", { model: model.id, ...given }, { signal });
      if (signal.aborted) return;
      const words = Array.isArray(one);
      pair.hidden = words;
      const whole = element("div", { class: "view" }, ...(words ? tagged(one) : [element("h3", {}, "How likely each class is"), classes(one)]));
      whole.append(saving("classify", whole, () => one));
      fill(found, whole);
    });
  }

  const keys = (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    show();
  };
  for (const area of [first, second]) {
    area.addEventListener("keydown", keys);
    area.addEventListener("change", show);
  }
  fill(host, element("section", { class: "classify", "aria-labelledby": "classify-title" },
    element("h2", { id: "classify-title" }, "Tell classes apart"),
    element("p", { class: "explanation" }, "The model reads the whole text at once and says how likely each class is; together they make 1. A model for words does so for each word."),
    first, second, element("div", { class: "ask" }, button("Classify", show, { class: "main" }), pair, look), problem, found));
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

/** Words with their labels, and the classes of the one that is chosen. */
function tagged(words) {
  const detail = element("div");
  const chips = words.map((one, place) => {
    const chip = button("", () => choose(place), { class: "token", "aria-pressed": "false", tabindex: -1 });
    chip.append(element("span", {}, visible(one.word)), element("b", {}, one.label), element("small", { class: "number" }, short(one.probability)));
    return chip;
  });
  const choose = (place) => {
    chips.forEach((chip, at) => {
      chip.ariaPressed = String(at === place);
      chip.tabIndex = at === place ? 0 : -1;
    });
    fill(detail, element("h3", {}, `How likely each class of ${quoted(words[place].word)} is`), classes(words[place]));
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
  return [element("h3", {}, "The class of each word"), element("div", { class: "tagged", role: "group", "aria-label": "Words and their classes", on: { keydown: walk } }, ...chips), detail];
}
