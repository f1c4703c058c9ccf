// The logit lens: the top token after each layer at every step, and the top candidates for the current step.

import { windowStart } from "./decoding_steps.js";
import { element, fill, tick } from "./dom.js";
import { clip, exact, quote, short } from "./text.js";
import { unpack } from "./trace.js";
import { view } from "./view.js";

const MAX_STEPS = 40;
const EXPLAINED = "Most likely token after each layer; ✓ where it is the token that was chosen";

/** Draw the logit lens of a trace that has one. */
export const logitLens = view("logit-lens", (trace, store) => {
  if (trace.logit_lens === null || trace.steps.length === 0) return null;
  const read = reader(trace);
  const table = element("div", { class: "scroller" });
  const detail = element("div", { class: "logit-lens-detail" });
  const note = element("p", { class: "note" });
  let first = null;
  store.watch(["step"], ({ step }) => {
    const start = windowStart(first, step, trace.steps.length, MAX_STEPS);
    if (start !== first) fill(table, overview(trace, store, read, start));
    first = start;
    for (const cell of table.querySelectorAll("[data-step]")) cell.classList.toggle("now", Number(cell.dataset.step) === step);
    const now = table.querySelector("th.now");
    if (now !== null) store.beforeNextFrame(table, () => keepInView(table, now));
    fill(detail, ...layers(trace, read, step));
    note.textContent = trace.steps.length > MAX_STEPS ? `Steps ${first + 1} to ${first + MAX_STEPS} of ${trace.steps.length}.` : "";
  });
  return { node: element("div", { class: "picture" }, element("p", { class: "note" }, EXPLAINED), table, note, detail), data: () => numbers(trace, read) };
});

function numbers(trace, { nLayers, tops }) {
  const topTokens = (layer) => trace.steps.map((_, step) => tops(layer, step).map(({ text, probability }) => ({ text, probability: exact(probability) })));
  const chosen = trace.steps.map(({ candidates, chosen: index }) => candidates[index].text);
  return { chosen, layers: Array.from({ length: nLayers }, (_, layer) => topTokens(layer)) };
}

/** Return functions that read tops(layer, step) → [{text, id, probability}] and chosen(layer, step). */
function reader({ logit_lens, steps }) {
  const ids = unpack(logit_lens.ids);
  const probabilities = unpack(logit_lens.probabilities);
  const chosen = unpack(logit_lens.chosen);
  const [nLayers, nRows, k] = ids.shape;
  const tops = (layer, step) => {
    const row = logit_lens.rows.indexOf(steps[step].row);
    if (row < 0) return [];
    const start = (layer * nRows + row) * k;
    return Array.from({ length: k }, (_, i) => {
      const id = logit_lens.ids.data[start + i];
      return { id, text: logit_lens.texts[String(id)] ?? String(id), probability: probabilities.data[start + i] };
    });
  };
  return { nLayers, tops, chosen: (layer, step) => chosen.data[layer * steps.length + step] };
}

function overview(trace, store, { nLayers, tops }, start) {
  const steps = trace.steps.slice(start, start + MAX_STEPS);
  const final = steps.map(({ candidates, chosen }) => candidates[chosen]);
  const head = element("tr", {}, element("th", { class: "corner" }, "after layer"), ...final.map(({ text }, i) =>
    element("th", { scope: "col", dir: "auto", "data-step": start + i }, clip(text, 10))));
  const rows = Array.from({ length: nLayers }, (_, layer) =>
    element("tr", {}, element("th", { scope: "row" }, String(layer)), ...final.map(({ id }, i) => {
      const [top] = tops(layer, start + i);
      if (top === undefined) return element("td", { "data-step": start + i }, "–");
      const kind = top.id === id ? "read agrees" : "read";
      const cell = element("td", { class: kind, "data-step": start + i, title: `${quote(top.text)} ${short(top.probability)}`, style: { "--share": String(top.probability) } },
        element("span", { class: "share" }), element("span", { dir: "auto" }, clip(top.text, 10)), top.id === id ? element("span", { class: "tick" }, "\u00a0✓") : null);
      cell.addEventListener("click", () => store.set({ step: start + i, playing: false }));
      return cell;
    })),
  );
  return element("table", { class: "logit-lens", "aria-label": EXPLAINED }, element("tbody", {}, head, ...rows));
}

function layers(trace, { nLayers, tops, chosen }, step) {
  const { candidates, chosen: index } = trace.steps[step];
  const blocks = Array.from({ length: nLayers }, (_, layer) => {
    const items = tops(layer, step).slice(0, 5).map(({ id, text, probability }) =>
      element("li", { class: id === candidates[index].id ? "candidate chosen" : "candidate" },
        element("span", { class: "name", dir: "auto" }, id === candidates[index].id ? tick() : null, clip(text, 12)),
        element("span", { class: "track" }, element("span", { class: "bar", style: { "--share": String(probability) } })),
        element("span", { class: "number" }, short(probability))));
    return element("div", { class: "layer" }, element("h3", {}, `after layer ${layer}`), element("ol", { class: "candidates" }, ...items),
      element("p", { class: "note" }, `${quote(candidates[index].text)}: ${short(chosen(layer, step))}`));
  });
  return blocks;
}

function keepInView(scroller, node) {
  const left = node.offsetLeft;
  if (left < scroller.scrollLeft + 70 || left + node.offsetWidth > scroller.scrollLeft + scroller.clientWidth) {
    scroller.scrollLeft = left - scroller.clientWidth / 2;
  }
}
