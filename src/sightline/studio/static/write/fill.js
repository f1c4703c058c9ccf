// Fill: a text with masks, and for each mask the most likely tokens, inserted with a click.

import { button, element, fill } from "/page/dom.js";
import { saveButton } from "/page/export.js";
import { endpointOf } from "../api.js";
import { undoHistory } from "../inputs.js";
import { inputHelp } from "../model_card.js";
import { bars, errorLine, keepFocus, watchLink } from "../view_parts.js";

const MASK = "[MASK]";
const N_CANDIDATES = 10;

/** Draw the view into an element; return a function that removes it. */
export function mount(host, app) {
  const { model, fetchJson, params } = app;
  const area = element("textarea", { rows: 3, "aria-label": "Text with masks", spellcheck: "false", dir: "auto" });
  area.value = params.get("text") ?? model.example?.text ?? `The ${MASK} dog`;
  const found = element("div");
  const { problem, attempt } = errorLine(() => fill(found));
  const help = inputHelp(app, ({ text }) => (history.set(text), show()));
  const look = element("span");
  let asked = null;
  const history = undoHistory(area, (text) => {
    params.set({ text });
    keepFocus(() => {
      fill(found);
      follow();
    }, area);
  });
  const undo = button("Undo", () => (history.undo(), show()));

  function follow() {
    undo.disabled = !history.canUndo();
    fill(look, watchLink(model, { text: area.value }));
  }

  function insert() {
    const [start, end] = [area.selectionStart, area.selectionEnd];
    history.set(area.value.slice(0, start) + MASK + area.value.slice(end));
    area.focus();
    area.setSelectionRange(start + MASK.length, start + MASK.length);
    show();
  }

  function show() {
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    help.check(area.value.replaceAll(MASK, " "));
    if (!area.value.includes(MASK)) return fill(found, element("p", { class: "explanation" }, `The text has no mask: place the cursor where a word is missing and insert ${MASK}.`));
    return attempt(async () => {
      const { data: [gaps] } = await fetchJson(endpointOf(model), { model: model.id, input: area.value, n: N_CANDIDATES }, { signal });
      if (signal.aborted) return;
      const whole = element("div", { class: "view" }, element("div", { class: "gaps" }, ...gaps.map((gap, number) => drawn(gap, number, gaps.length))));
      whole.append(saveButton("fill", whole, () => gaps));
      fill(found, whole);
    });
  }

  function drawn(gap, number, count) {
    const items = gap.map(({ text, token, probability }) => ({ text: token, probability, title: `Insert: ${text}`, act: () => (history.set(text), show()) }));
    return element("div", {}, element("h3", {}, count > 1 ? `Mask ${number + 1} of ${count}` : "Most likely tokens"), bars(items));
  }

  const keys = (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    show();
  };
  area.addEventListener("keydown", keys);
  area.addEventListener("change", show);
  fill(host, element("section", { class: "fill", "aria-labelledby": "fill-title" },
    element("h2", { id: "fill-title" }, "Fill masks"),
    element("p", { class: "explanation" }, "Masked language modeling: the model reads the context on both sides of a mask and predicts a probability for each token. Each mask is predicted independently; click a token to insert it."),
    area, help.node, element("div", { class: "ask" }, button("Predict", show, { class: "main" }), button(`Insert ${MASK}`, insert), undo, look), problem, found));
  follow();
  show();
  return () => {
    asked?.abort();
    fill(host);
  };
}
