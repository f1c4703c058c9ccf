// Fill: a text with gaps, and for each gap the words that fit, to be put in with a click.

import { button, element, fill } from "/drawing/dom.js";
import { saving } from "/drawing/saving.js";
import { bars, inside, styled, trying } from "./write_parts.js";
import { past } from "./write_past.js";

const MASK = "[MASK]";
const MOST = 10;

/** Draw the view into an element; return a function that removes it. */
export function mount(host, { model, ask, place }) {
  styled("write");
  const area = element("textarea", { rows: 3, "aria-label": "A text with gaps", spellcheck: "false", dir: "auto" });
  area.value = place.get("text") ?? model.example?.text ?? `The ${MASK} dog`;
  const { problem, attempt } = trying();
  const found = element("div");
  const look = element("span");
  let asked = null;
  const story = past(area, (text) => {
    place.set({ text });
    fill(found);
    follow();
  });
  const undo = button("Undo", () => (story.undo(), show()));

  function follow() {
    undo.disabled = !story.canUndo();
    fill(look, inside(model, { text: area.value }));
  }

  function insert() {
    const [start, end] = [area.selectionStart, area.selectionEnd];
    story.set(area.value.slice(0, start) + MASK + area.value.slice(end));
    area.focus();
    area.setSelectionRange(start + MASK.length, start + MASK.length);
    show();
  }

  function show() {
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    if (!area.value.includes(MASK)) return fill(found, element("p", { class: "explanation" }, `There is no gap: put the cursor where a word is missing and insert ${MASK}.`));
    return attempt(async () => {
      const { data: [gaps] } = await ask("/fill", { model: model.id, input: area.value, n: MOST }, { signal });
      if (signal.aborted) return;
      const whole = element("div", { class: "view" }, element("div", { class: "gaps" }, ...gaps.map((gap, number) => drawn(gap, number, gaps.length))));
      whole.append(saving("fill", whole, () => gaps));
      fill(found, whole);
    });
  }

  function drawn(gap, number, count) {
    const items = gap.map(({ text, token, probability }) => ({ text: token, probability, title: `Put it in: ${text}`, act: () => (story.set(text), show()) }));
    return element("div", {}, element("h3", {}, count > 1 ? `Gap ${number + 1} of ${count}` : "What fits the gap"), bars(items));
  }

  const keys = (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    show();
  };
  area.addEventListener("keydown", keys);
  area.addEventListener("change", show);
  fill(host, element("section", { class: "fill", "aria-labelledby": "fill-title" },
    element("h2", { id: "fill-title" }, "Fill the gaps"),
    element("p", { class: "explanation" }, "The model reads the words on both sides of a gap and says how likely each word is to stand in it. Each gap is filled by itself; click a word to put it in."),
    area, element("div", { class: "ask" }, button("What fits?", show, { class: "main" }), button(`Insert ${MASK}`, insert), undo, look), problem, found));
  follow();
  show();
  return () => {
    asked?.abort();
    fill(host);
  };
}
