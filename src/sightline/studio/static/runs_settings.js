// The settings of the selected runs side by side: only differences, or all.

import { element, fill } from "/drawing/dom.js";
import { swatch } from "./curves_drawing.js";

/** Draw the table into an element; call `show(runs)` when the selection changes. */
export function settingsTable(host, app, failed) {
  const known = new Map();
  const all = element("input", { type: "checkbox", id: "runs-all" });
  const body = element("div", { class: "scroller runs-scroller", tabindex: 0, role: "region", "aria-label": "Settings" });
  fill(host, element("p", {}, element("label", {}, all, " Show all settings, not only differences")), body);
  let runs = [];
  const draw = () => fill(body, ...tables(runs.map((run) => ({ run, settings: known.get(run.id) })).filter(({ settings }) => settings), all.checked));
  all.addEventListener("change", draw);
  return {
    show: async (chosen) => {
      runs = chosen;
      draw();
      for (const { id } of chosen.filter((run) => !known.has(run.id))) {
        try {
          known.set(id, (await app.fetchJson(`/studio-api/runs/${id}/settings`)).settings);
        } catch (error) {
          failed(error);
        }
      }
      draw();
    },
  };
}

function tables(found, everything) {
  if (found.length === 0) return [element("p", { class: "waiting" }, "Select a run above.")];
  const names = [...new Set(found.flatMap(({ settings }) => Object.keys(settings)))];
  const differ = (name) => found.some(({ settings }) => settings[name] !== found[0].settings[name]);
  const shown = names.filter((name) => everything || differ(name));
  if (shown.length === 0) return [element("p", {}, found.length === 1 ? "Select a second run to see the differences." : "These runs have the same settings and data.")];
  const head = found.map(({ run }) => element("th", { scope: "col" }, swatch(run), run.name));
  const rows = shown.map((name) => element("tr", { class: everything && found.length > 1 && differ(name) ? "differs" : null }, element("th", { scope: "row" }, name), ...found.map(({ settings }) => element("td", { dir: "auto" }, settings[name] ?? "–"))));
  return [element("table", { class: "runs-settings" }, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Setting"), ...head)), element("tbody", {}, ...rows))];
}

/** The latest sample texts in the records, from validation. */
export function samples(runs) {
  return runs.flatMap((run) => {
    const last = {};
    for (const record of run.records) for (const [name, value] of Object.entries(record)) if (typeof value === "string") last[name] = { value, step: record.step };
    return Object.entries(last).map(([name, { value, step }]) => element("p", { class: "sample" }, swatch(run), element("b", {}, `${run.name}, ${name.replaceAll("_", " ")}, step ${step}: `), element("span", { dir: "auto" }, value)));
  });
}
