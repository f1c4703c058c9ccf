// Words: the word embeddings of a model as points on a map, and the nearest neighbors of the selected word.

import { button, element, fill } from "/page/dom.js";
import { saveButton } from "/page/export.js";
import { Store } from "/page/store.js";
import { exact, groupDigits, percent, quote, short, visible } from "/page/text.js";
import { Scope } from "/page/view.js";
import { errorLine } from "../view_parts.js";
import { wordMap } from "./word_map.js";

const NEIGHBORS = 12;
const SUGGESTIONS = 20;
const MEASURES = { cosine: "Cosine", distance: "Distance" };
const ABOUT = {
  cosine: "Cosine similarity of two vectors: 1 for the same direction, 0 for orthogonal vectors.",
  distance: "Euclidean distance between two vectors: 0 for the same vector. Their lengths count.",
};

/** Draw the view into an element; return a function that removes it. */
export function mount(host, { model, fetchJson, params, themed }) {
  const scope = new Scope(new Store({ palette: null }));
  const { problem, attempt } = errorLine(() => {
    found = null;
    map.select(null, []);
    fill(list);
  });
  let measure = params.get("measure") === "distance" ? "distance" : "cosine";
  let chosen = params.get("word");
  let [points, found, asked] = [[], null, null];
  let beside = 0; // words on the map that are not in the list, while they are selected
  const map = wordMap({ scope, pick: (word) => choose(word) });
  const share = element("p", { class: "note" });
  const list = element("div", { "aria-live": "polite" });
  const options = element("datalist", { id: "known-words" });
  const search = element("input", { type: "search", "aria-label": "Search for a word", placeholder: "Search for a word", list: "known-words", autocomplete: "off", maxlength: 60, dir: "auto" });
  const own = element("textarea", { rows: 3, "aria-label": "Your own words", maxlength: 8000, placeholder: "king queen man woman", spellcheck: "false" });
  search.value = chosen ?? "";
  own.value = params.get("words") ?? "";
  const folded = element("details", { class: "own" }, element("summary", {}, "Use your own words instead of the model's list"), own, button("Show these words", () => load()));
  const switcher = element("div", { class: "switcher", role: "group", "aria-label": "Similarity measure" });

  const typed = () => [...new Set(own.value.split(/[\s,;]+/).filter((word) => word !== ""))];
  const request = () => ({ model: model.id, words: typed(), measure });

  function load() {
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    params.set({ words: own.value.trim() === "" ? null : own.value.trim(), measure: measure === "cosine" ? null : measure });
    fill(switcher, ...Object.entries(MEASURES).map(([name, title]) => button(title, () => {
      measure = name;
      load();
    }, { "aria-pressed": String(measure === name) })));
    return attempt(async () => {
      const { words, x, y, explained_variance: part, listed } = await fetchJson("/studio-api/words", request(), { signal });
      if (signal.aborted) return;
      if (listed === 0) folded.open = true;
      points = words.map((word, number) => ({ word, x: x[number], y: y[number] }));
      map.show(points);
      const which = typed().length > 0 ? "your own" : listed > words.length ? `the most frequent of ${groupDigits(listed)}` : "all in the model's list";
      share.textContent = words.length === 0 ? "This model has no word list: enter some words below." : `${groupDigits(words.length)} words, ${which}. The map shows the first two principal components, with ${percent(part)} of the variance, so words that look close may not be. The list has the exact numbers.`;
      await neighbors(signal);
    });
  }

  /** Fetch the neighbors of the selected word, and mark them. */
  async function neighbors(signal) {
    found = null;
    if (chosen !== null && points.length > 0) found = await fetchJson("/studio-api/neighbors", { ...request(), word: chosen, n: NEIGHBORS }, { signal });
    if (signal.aborted) return;
    const near = found?.neighbors ?? [];
    const known = new Set(points.map(({ word }) => word));
    const others = found === null ? [] : [found, ...near].filter(({ word }) => !known.has(word));
    if (others.length > 0 || beside > 0) map.show([...points, ...others.map(({ word, x, y }) => ({ word, x, y }))]);
    beside = others.length;
    map.select(found === null ? null : chosen, near.map(({ word }) => word), { known: found?.known ?? true });
    drawNeighbors(near);
  }

  function choose(word) {
    chosen = word;
    params.go({ word });
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    search.value = word ?? "";
    return attempt(() => neighbors(signal));
  }

  function drawNeighbors(near) {
    if (found === null) return fill(list, element("p", { class: "explanation" }, "Select a word on the map, or search for one."));
    const most = near.reduce((far, { distance }) => Math.max(far, distance), 0) || 1;
    const rows = near.map((one) => element("li", {},
      button(visible(one.word), () => choose(one.word), { class: "name pick", title: `cosine ${short(one.cosine)}, distance ${short(one.distance)}` }),
      element("span", { class: "track", "aria-hidden": "true" }, element("i", { class: "bar", style: { "--share": measure === "cosine" ? Math.max(0, one.cosine) : one.distance / most } })),
      element("span", { class: "number" }, short(one[measure]))));
    const unlisted = found.known ? null : element("p", { class: "warning" }, `${quote(chosen)} is not in ${typed().length > 0 ? "your list" : "the model's word list"}: the model may never have read it. Its place is only the mean of its ${found.tokens.length === 1 ? "token" : `${found.tokens.length} tokens`} (${found.tokens.map(quote).join(", ")}), and these neighbors say little about what it means.`);
    return fill(list, element("h3", {}, `Nearest to ${quote(chosen)}`), unlisted, element("ol", { class: "candidates" }, ...rows), element("p", { class: "note" }, ABOUT[measure]),
      element("p", {}, button("Zoom to these", () => map.fit([chosen, ...near.map(({ word }) => word)])), " ", button("Clear", () => choose(null), { title: "Clear the selection (Escape)" })));
  }

  search.addEventListener("input", () => {
    const text = search.value.toLowerCase();
    const matches = text === "" ? [] : points.filter(({ word }) => word.toLowerCase().startsWith(text)).slice(0, SUGGESTIONS);
    fill(options, ...matches.map(({ word }) => element("option", { value: word })));
  });
  search.addEventListener("change", () => search.value.trim() !== "" && choose(search.value.trim()));
  const picture = element("section", { "aria-labelledby": "words-title" },
    element("h2", { id: "words-title" }, "Word embeddings"),
    element("p", { class: "explanation" }, "The learned embedding of each word, projected to two dimensions (PCA); a word of several tokens has the mean of theirs. Words used in similar ways are close to each other: click one to see its nearest neighbors."),
    map.node, share, folded);
  picture.append(saveButton("words", picture, () => ({ measure, word: chosen, known: found?.known ?? null, neighbors: found?.neighbors ?? [], words: points.map(({ word, x, y }) => ({ word, x: exact(x), y: exact(y) })) })));
  const side = element("section", { "aria-label": "Neighbors" }, element("div", { class: "ask" }, search, options, switcher), problem, list);
  fill(host, element("div", { class: "words", on: { keydown: (event) => event.key === "Escape" && chosen !== null && choose(null) } }, picture, side));
  scope.onEnd(themed(scope.store));
  load();
  return () => {
    asked?.abort();
    scope.end();
    fill(host);
  };
}
