// Write: a story that person and model write together: it goes on by itself, or three ways are offered to choose from.

import { button, element, fill } from "/drawing/dom.js";
import { odds, oddsOf } from "./write_odds.js";
import { inside, styled, trying } from "./write_parts.js";
import { past } from "./write_past.js";
import { settings } from "./write_settings.js";

const WAYS = 3;
const PAUSE = 400; // after which a text that was typed is looked at

/** Draw the view into an element; return a function that removes it. */
export function mount(host, app) {
  styled("write");
  const { model, place, stream } = app;
  const area = element("textarea", { rows: 7, "aria-label": "The story so far", spellcheck: "false", dir: "auto" });
  area.value = place.get("text") ?? model.example?.text ?? "";
  const { problem, attempt } = trying();
  const looked = trying();
  const knobs = settings(place);
  const ways = element("div", { class: "ways", role: "listbox", "aria-label": "Ways to go on", hidden: true });
  const likely = element("div");
  const wantsOdds = element("input", { type: "checkbox", id: "odds", checked: place.get("odds") !== null });
  const look = element("span");
  let [offers, chosen, running, asked, timer, ended] = [[], 0, null, null, null, false];

  const changed = (text) => {
    place.set({ text });
    refuse();
    fill(likely);
    follow();
    clearTimeout(timer);
    timer = setTimeout(showOdds, PAUSE);
  };
  const story = past(area, changed);
  const on = button("Go on", () => goOn(), { class: "main", title: "Write on from here (Ctrl+Enter)" });
  const three = button("Three ways", () => offer(), { title: "Three ways to go on, to choose from (Alt+Enter)" });
  const stop = button("Stop", () => running?.abort(), { disabled: true });
  const undo = button("Undo", story.undo);
  const redo = button("Redo", story.redo);

  function follow() {
    undo.disabled = running !== null || !story.canUndo();
    redo.disabled = running !== null || !story.canRedo();
    for (const one of [on, three]) one.disabled = running !== null;
    stop.disabled = running === null;
    area.readOnly = running !== null;
    fill(look, inside(model, { text: area.value }));
  }

  /** Ask for one or several continuations; `grown(texts)` is told of every piece. */
  async function written(n, grown) {
    refuse();
    const clicked = [on, three].includes(document.activeElement);
    running = new AbortController();
    follow();
    if (clicked) stop.focus(); // a button that is disabled hears no Escape
    const texts = Array(n).fill("");
    const body = { model: model.id, prompt: area.value, stream: true, ...knobs.values(), ...(n > 1 ? { n } : {}) };
    if (n > 1 && body.temperature === 0) body.beam = n; // nothing is drawn: the best of a beam
    try {
      for await (const { choices } of stream("/v1/completions", body, { signal: running.signal })) {
        for (const { index, text } of choices) texts[index] += text;
        grown(texts);
      }
    } finally {
      const stopped = document.activeElement === stop;
      running = null;
      follow();
      if (stopped) on.focus();
    }
    return texts;
  }

  async function goOn() {
    const begun = area.value;
    let now = begun;
    await attempt(() => written(1, ([text]) => {
      area.value = now = begun + text;
      area.scrollTop = area.scrollHeight;
    }));
    if (ended) return; // the address is another view's
    area.value = begun;
    story.set(now);
  }

  function offer() {
    return attempt(async () => {
      offers = await written(WAYS, (texts) => draw(texts));
      draw(offers);
    });
  }

  function draw(texts) {
    offers = texts;
    ways.hidden = false;
    if (ways.children.length !== texts.length) fill(ways, ...texts.map((_, number) => button("", () => accept(number), { class: "way", role: "option", id: `way-${number}` })));
    texts.forEach((text, number) => {
      const way = ways.children[number];
      way.textContent = text || "…";
      way.ariaSelected = String(number === chosen);
    });
    area.setAttribute("aria-activedescendant", `way-${chosen}`);
  }

  function refuse() {
    [offers, chosen] = [[], 0];
    ways.hidden = true;
    fill(ways);
    area.removeAttribute("aria-activedescendant");
  }

  function accept(number) {
    if (running !== null) return;
    story.set(area.value + offers[number]);
    area.focus();
  }

  async function showOdds() {
    asked?.abort();
    place.set({ odds: wantsOdds.checked ? 1 : null });
    if (!wantsOdds.checked || area.value === "") return fill(likely);
    asked = new AbortController();
    const { signal } = asked;
    return looked.attempt(async () => {
      const trace = await oddsOf(app, area.value, signal);
      if (!signal.aborted) fill(likely, odds(trace, story.set));
    });
  }

  function keys(event) {
    if (event.key === "Escape" && running !== null) running.abort();
    else if (event.key === "Escape" && offers.length > 0) refuse();
    else if (event.key === "Enter" && event.ctrlKey && running === null) goOn();
    else if (event.key === "Enter" && event.altKey && running === null) offer();
    else if (offers.length === 0) return;
    else if (event.key === "Tab" && !event.shiftKey) accept(chosen);
    else if (["ArrowDown", "ArrowUp"].includes(event.key)) {
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : WAYS - 1)) % WAYS;
      draw(offers);
    } else return;
    event.preventDefault();
  }

  const node = element("section", { class: "write", "aria-labelledby": "write-title", on: { keydown: keys } },
    element("h2", { id: "write-title" }, "Write a story together"),
    element("p", { class: "explanation" }, "Begin, and let the model go on: again and again it draws one more piece of a word from those it finds likely. Three ways: ↑ ↓ choose, Tab or a click takes one, Escape none."),
    area, element("div", { class: "ask" }, on, three, stop, undo, redo, look), problem, ways, knobs.node,
    element("p", { class: "wish" }, wantsOdds, element("label", { for: "odds" }, "Show how likely each token was")), looked.problem, likely);
  wantsOdds.addEventListener("change", showOdds);
  fill(host, node);
  follow();
  showOdds();
  return () => {
    ended = true;
    running?.abort();
    asked?.abort();
    clearTimeout(timer);
    fill(host);
  };
}
