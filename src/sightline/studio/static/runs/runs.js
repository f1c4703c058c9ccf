// Runs: the table of training runs, their curves, live during training, and their settings side by side; below, the
// time-lapse.

import { button, element, fill, section } from "/page/dom.js";
import { Store } from "/page/store.js";
import { groupDigits, short } from "/page/text.js";
import { titleOf } from "../model_card.js";
import { curves, swatch } from "./curves.js";
import { AXES, metricNames } from "./curves_data.js";
import { pollRuns } from "./polling.js";
import { timelapse } from "./timelapse.js";

const [N_COLORS, N_DASHES, N_INITIAL] = [6, 5, 3];
const MAX_SMOOTHING = 0.98;
const STATES = { ended: "ended", training: "● training", stalled: "stalled" };

/** Draw the view into an element; return a function that removes it. */
export function mount(host, app) {
  const { params } = app;
  const store = new Store({ cards: null, drawn: [], at: null, first: "loss", second: "loss", ...curvesFromUrl(params) });
  let chosen = params.get("runs")?.split(",").filter(Boolean) ?? null;
  const marks = new Map();
  const problem = element("p", { class: "problem", role: "alert" });
  const failed = (error) => (problem.textContent = error === null ? "" : `${error.message} (retrying)`);
  const settingsHost = element("div");
  const settings = settingsTable(settingsHost, app, failed);
  const written = element("div");

  const choose = (ids, write = params.go) => {
    chosen = ids;
    for (const id of marks.keys()) if (!ids.includes(id)) marks.delete(id);
    for (const id of ids) if (!marks.has(id)) marks.set(id, lowestFree([...marks.values()]));
    write({ runs: ids.join(",") });
    update();
    polling.choose(ids);
    settings.show(store.state.drawn);
  };
  const update = (cards = store.state.cards) => {
    const drawn = chosen.map((id) => cards.find((card) => card.id === id)).filter(Boolean).map((card) => ({ ...card, mark: markOf(marks.get(card.id)), records: polling.records(card.id) }));
    store.set({ cards, drawn });
  };
  const polling = pollRuns(app.fetchJson, {
    failed,
    changed: (cards) => {
      if (cards.length > 0 && !store.state.cards?.length) {
        store.set({ cards });
        choose(chosen?.filter((id) => cards.some((card) => card.id === id)) ?? initialRuns(cards, app.model?.id), params.set);
      } else if (cards.length > 0) update(cards);
      else store.set({ cards });
    },
  });

  const ends = [() => polling.end()];
  const list = section("runs-list", "Runs", "Each run is one training of a model. Select the runs to compare; runs in progress update automatically.", element("div", { class: "scroller runs-scroller", tabindex: 0, role: "region", "aria-label": "All runs" }, runsTable(store, choose)));
  const charts = ["first", "second"].map((entry) => chartPart(store, entry, ends));
  const curvesPart = section("runs-curves", "Curves", "The loss falls as the model fits the training set. Scores are computed on the validation set. Drag across a chart to zoom in.",
    controls(store), element("div", { class: "runs-charts" }, ...charts), written);
  const settingsPart = section("runs-compare", "Settings", "The resolved settings of the selected runs.", settingsHost);
  const timelapseHost = element("div");
  ends.push(timelapse(timelapseHost, app, store));
  store.watch(["drawn"], ({ drawn }) => fill(written, ...samples(drawn)));
  curvesToUrl(params, store);
  fill(host, problem, list, curvesPart, settingsPart, timelapseHost);
  return () => {
    ends.forEach((end) => end());
    fill(host);
  };
}

/** The run of the model; if it is not here, the newest runs of the newest task. */
function initialRuns(cards, model) {
  const own = cards.filter(({ models }) => models.includes(model));
  return (own.length > 0 ? own : cards.filter(({ task }) => task === cards[0].task).slice(0, N_INITIAL)).map(({ id }) => id);
}

function lowestFree(taken) {
  return [...taken.keys(), taken.length].find((number) => !taken.includes(number));
}

function markOf(number) {
  return `run-color-${number % N_COLORS} run-dash-${number % N_DASHES}`;
}

/** A chart with a metric selector; if the requested metric has no values, the default one is shown. */
function chartPart(store, entry, ends) {
  const key = `${entry}Metric`;
  const choice = element("select", { "aria-label": `Metric of the ${entry} chart`, on: { change: () => store.set({ [key]: choice.value }) } });
  store.watch(["drawn", key], ({ drawn, [key]: requested }) => {
    const names = metricNames(drawn);
    const now = names.includes(requested) ? requested : names.find((name) => (name === "loss") === (entry === "first")) ?? "loss";
    store.set({ [entry]: now });
    if (choice.value !== now || choice.options.length !== names.length) fill(choice, ...names.map((name) => element("option", { value: name, selected: name === now }, titleOf(name))));
  });
  const picture = element("div");
  ends.push(curves(picture, store, entry));
  return element("div", { class: "runs-chart" }, choice, picture);
}

function controls(store) {
  const axis = element("select", { id: "runs-axis", on: { change: () => store.set({ axis: axis.value, range: null, at: null }) } }, ...Object.entries(AXES).map(([value, name]) => element("option", { value, selected: value === store.state.axis }, name)));
  const smooth = element("input", { type: "range", id: "runs-smooth", min: 0, max: 0.98, step: 0.02, value: store.state.smoothing, on: { input: () => store.set({ smoothing: Number(smooth.value) }) } });
  const box = (entry, name) => element("label", {}, element("input", { type: "checkbox", checked: store.state[entry], on: { change: ({ target }) => store.set({ [entry]: target.checked, ...(entry === "logX" ? { range: null } : {}) }) } }), ` ${name}`);
  const reset = button("Reset zoom", () => store.set({ range: null }));
  store.watch(["range"], ({ range }) => (reset.disabled = range === null));
  return element("div", { class: "ask runs-controls" }, element("label", { for: "runs-axis" }, "x axis "), axis, element("span", {}, "Log scale:"), box("logX", "x"), box("logY", "y"), element("label", { for: "runs-smooth" }, "Smoothing "), smooth, reset);
}

/** Return the state of the curves in the URL, with defaults. */
function curvesFromUrl(params) {
  const ends = (params.get("zoom") ?? "").split("-").map(Number);
  return {
    axis: params.get("x") in AXES ? params.get("x") : "step",
    smoothing: Math.max(0, Math.min(MAX_SMOOTHING, Number(params.get("smooth")) || 0)),
    logX: params.get("logx") !== null,
    logY: params.get("logy") !== null,
    range: ends.length === 2 && ends[0] < ends[1] ? ends : null,
    firstMetric: params.get("first"),
    secondMetric: params.get("second"),
  };
}

/** Keep the URL up to date; defaults are left out. */
function curvesToUrl(params, store) {
  store.watch(["axis", "smoothing", "logX", "logY", "range", "firstMetric", "secondMetric"], ({ axis, smoothing, logX, logY, range, firstMetric, secondMetric }) =>
    params.set({
      x: axis === "step" ? null : axis,
      smooth: smoothing || null,
      logx: logX ? 1 : null,
      logy: logY ? 1 : null,
      zoom: range?.map((value) => Number(value.toPrecision(6))).join("-"),
      first: firstMetric,
      second: secondMetric,
    }));
}

/** Create the table of all runs, with a checkbox for each. */
function runsTable(store, choose) {
  const head = ["Run", "State", "Score", "Steps", "Task", "Started"].map((name) => element("th", { scope: "col" }, name));
  const body = element("tbody");
  let before = "";
  store.watch(["cards", "drawn"], ({ cards, drawn }) => {
    if (!cards?.length) return fill(body, element("tr", {}, element("td", { colspan: 6, class: "waiting" }, cards === null ? "…" : "No runs in this folder yet. New runs appear here automatically.")));
    const rows = cards.map((card) => [card, drawn.find(({ id }) => id === card.id)]);
    const now = JSON.stringify(rows.map(([card, run]) => [card.id, card.state, run?.mark, run?.records.at(-1)?.step]));
    if (now === before) return;
    before = now;
    const focused = body.contains(document.activeElement) ? document.activeElement.value : null;
    fill(body, ...rows.map(([card, run]) => runRow(card, run, () => choose(run ? drawn.filter(({ id }) => id !== card.id).map(({ id }) => id) : [...drawn.map(({ id }) => id), card.id]))));
    body.querySelector(`input[value="${focused}"]`)?.focus();
  });
  return element("table", { class: "runs-table" }, element("thead", {}, element("tr", {}, ...head)), body);
}

function runRow(card, run, change) {
  const box = element("input", { type: "checkbox", value: card.id, checked: run !== undefined, on: { change } });
  const scores = Object.entries(scoresOf(card, run)).filter(([name, value]) => typeof value === "number" && name !== "validation_loss");
  const name = element("th", { scope: "row" }, element("label", {}, box, run ? swatch(run) : element("span", { class: "no-swatch" }), card.name));
  const steps = run?.records.at(-1)?.step;
  const score = scores.slice(0, 2).map(([one, value]) => `${titleOf(one)} ${short(value)}`).join(", ");
  return element("tr", {}, name, element("td", { class: card.state }, STATES[card.state]), ...[score, steps === undefined ? "" : groupDigits(steps), card.task, card.began.slice(0, 16)].map((text) => element("td", {}, text)));
}

/** The final scores of a run, or those of the model it has saved so far. */
function scoresOf(card, run) {
  if (Object.keys(card.scores).length > 0) return card.scores;
  const validations = run?.records.filter((record) => typeof record.validation_loss === "number") ?? [];
  const saved = validations.at(-1)?.best_step;
  const { step, best_step: best, ...scores } = validations.findLast((record) => record.step === saved) ?? {};
  return scores;
}

/** Draw the table of settings, only differences or all, into an element; call `show(runs)` when the selection changes. */
function settingsTable(host, app, failed) {
  const known = new Map();
  const all = element("input", { type: "checkbox", id: "runs-all" });
  const body = element("div", { class: "scroller runs-scroller", tabindex: 0, role: "region", "aria-label": "Settings" });
  fill(host, element("p", {}, element("label", {}, all, " Show all settings, not only differences")), body);
  let runs = [];
  const draw = () => fill(body, ...settingsRows(runs.map((run) => ({ run, settings: known.get(run.id) })).filter(({ settings }) => settings), all.checked));
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

function settingsRows(found, everything) {
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
function samples(runs) {
  return runs.flatMap((run) => {
    const last = {};
    for (const record of run.records) for (const [name, value] of Object.entries(record)) if (typeof value === "string") last[name] = { value, step: record.step };
    return Object.entries(last).map(([name, { value, step }]) => element("p", { class: "sample" }, swatch(run), element("b", {}, `${run.name}, ${name.replaceAll("_", " ")}, step ${step}: `), element("span", { dir: "auto" }, value)));
  });
}
