// Words: those a model has a list of as points on a map, and the nearest neighbours of the one that is chosen.

import { button, element, fill } from "/drawing/dom.js";
import { counted, exact, percent, short } from "/drawing/numbers.js";
import { saving } from "/drawing/saving.js";
import { Scope } from "/drawing/scope.js";
import { Store } from "/drawing/store.js";
import { quoted, visible } from "/drawing/texts.js";
import { wordMap } from "./words_map.js";
import { styled, trying } from "./write_parts.js";

const NEIGHBORS = 12;
const SUGGESTIONS = 20;
const MEASURES = { cosine: "Cosine", distance: "Distance" };
const ABOUT = {
  cosine: "The cosine of the angle between two vectors: 1 where both point the same way, 0 where they have nothing in common.",
  distance: "The straight (Euclidean) distance between two vectors: 0 for the same vector. Their lengths count here.",
};

/** Draw the view into an element; return a function that removes it. */
export function mount(host, { model, ask, place, themed }) {
  styled("write");
  styled("positions");
  const scope = new Scope(new Store({ palette: null }));
  const { problem, attempt } = trying();
  let measure = place.get("measure") === "distance" ? "distance" : "cosine";
  let chosen = place.get("word");
  let [points, found, asked] = [[], null, null];
  const map = wordMap({ scope, pick: (word) => choose(word) });
  const share = element("p", { class: "note" });
  const list = element("div", { "aria-live": "polite" });
  const options = element("datalist", { id: "known-words" });
  const search = element("input", { type: "search", "aria-label": "Find a word", placeholder: "Find a word", list: "known-words", autocomplete: "off", maxlength: 60, dir: "auto" });
  const own = element("textarea", { rows: 3, "aria-label": "Words of your own", maxlength: 8000, placeholder: "king queen man woman", spellcheck: "false" });
  search.value = chosen ?? "";
  own.value = place.get("words") ?? "";
  const folded = element("details", { class: "own" }, element("summary", {}, "Words of your own instead of the model's list"), own, button("Show these words", () => load()));
  const switcher = element("div", { class: "switcher", role: "group", "aria-label": "Nearness" });

  const typed = () => [...new Set(own.value.split(/[\s,;]+/).filter((word) => word !== ""))];
  const wished = () => ({ model: model.id, words: typed(), measure });

  function load() {
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    place.set({ words: own.value.trim() === "" ? null : own.value.trim(), measure: measure === "cosine" ? null : measure });
    fill(switcher, ...Object.entries(MEASURES).map(([name, title]) => button(title, () => {
      measure = name;
      load();
    }, { "aria-pressed": String(measure === name) })));
    return attempt(async () => {
      const { words, x, y, share: part, listed } = await ask("/studio-api/words", wished(), { signal });
      if (signal.aborted) return;
      if (listed === 0) folded.open = true;
      points = words.map((word, number) => ({ word, x: x[number], y: y[number] }));
      map.show(points);
      const which = typed().length > 0 ? "your own" : listed > words.length ? `the most frequent of ${counted(listed)}` : "all of the model's list";
      share.textContent = words.length === 0 ? "This model has no list of words: type some below." : `${counted(words.length)} words, ${which}. A page has two directions only: these show ${percent(part)} of how the vectors differ, so that words may look near which are not. The list has the true numbers.`;
      await neighbours(signal);
    });
  }

  /** Ask for the neighbours of the chosen word, and mark them. */
  async function neighbours(signal) {
    found = null;
    if (chosen !== null && points.length > 0) found = await ask("/studio-api/neighbors", { ...wished(), word: chosen, n: NEIGHBORS }, { signal });
    if (signal.aborted) return;
    const near = found?.neighbors ?? [];
    const known = new Set(points.map(({ word }) => word));
    const strangers = found === null ? [] : [found, ...near].filter(({ word }) => !known.has(word));
    if (strangers.length > 0) {
      points = [...points, ...strangers.map(({ word, x, y }) => ({ word, x, y }))];
      map.show(points);
    }
    map.look(found === null ? null : chosen, near.map(({ word }) => word));
    drawList(near);
  }

  function choose(word) {
    chosen = word;
    place.set({ word });
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    search.value = word ?? "";
    return attempt(() => neighbours(signal));
  }

  function drawList(near) {
    if (found === null) return fill(list, element("p", { class: "explanation" }, "Choose a word on the map, or find one."));
    const most = near.reduce((far, { distance }) => Math.max(far, distance), 0) || 1;
    const rows = near.map((one) => element("li", {},
      button(visible(one.word), () => choose(one.word), { class: "name pick", title: `cosine ${short(one.cosine)}, distance ${short(one.distance)}` }),
      element("span", { class: "track", "aria-hidden": "true" }, element("i", { class: "bar", style: { "--share": measure === "cosine" ? Math.max(0, one.cosine) : one.distance / most } })),
      element("span", { class: "number" }, short(one[measure]))));
    return fill(list, element("h3", {}, `Nearest to ${quoted(chosen)}`), element("ol", { class: "candidates" }, ...rows), element("p", { class: "note" }, ABOUT[measure]),
      element("p", {}, button("Zoom to these", () => map.fit([chosen, ...near.map(({ word }) => word)])), " ", button("None", () => choose(null), { title: "Choose no word (Escape)" })));
  }

  search.addEventListener("input", () => {
    const text = search.value.toLowerCase();
    const fitting = text === "" ? [] : points.filter(({ word }) => word.toLowerCase().startsWith(text)).slice(0, SUGGESTIONS);
    fill(options, ...fitting.map(({ word }) => element("option", { value: word })));
  });
  search.addEventListener("change", () => search.value.trim() !== "" && choose(search.value.trim()));
  const picture = element("section", { "aria-labelledby": "words-title" },
    element("h2", { id: "words-title" }, "Words as points"),
    element("p", { class: "explanation" }, "To the model a word is a vector: a row of numbers that it learned; a word of several tokens has the mean of theirs. Words it uses alike lie near each other: click one to see its nearest."),
    map.node, share, folded);
  picture.append(saving("words", picture, () => ({ measure, word: chosen, neighbors: found?.neighbors ?? [], words: points.map(({ word, x, y }) => ({ word, x: exact(x), y: exact(y) })) })));
  const side = element("section", { "aria-label": "Neighbours" }, element("div", { class: "ask" }, search, options, switcher), problem, list);
  fill(host, element("div", { class: "words", on: { keydown: (event) => event.key === "Escape" && chosen !== null && choose(null) } }, picture, side));
  scope.onEnd(themed(scope.store));
  load();
  return () => {
    asked?.abort();
    scope.end();
    fill(host);
  };
}
