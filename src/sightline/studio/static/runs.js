// Runs: training curves, live during training; differences in settings; the model at each snapshot.

import { button, element, fill, section } from "/drawing/dom.js";
import { Store } from "/drawing/store.js";
import { curves } from "./curves.js";
import { AXES, metricNames } from "./curves_data.js";
import { titleOf } from "./curves_drawing.js";
import { pollRuns } from "./runs_polling.js";
import { runsTable } from "./runs_list.js";
import { stateFromUrl, syncUrl } from "./runs_url_state.js";
import { samples, settingsTable } from "./runs_settings.js";
import { timelapse } from "./timelapse.js";

const [N_COLORS, N_DASHES, N_INITIAL] = [6, 5, 3];

/** Draw the view into an element; return a function that removes it. */
export function mount(host, app) {
  if (!document.querySelector("link[href='/studio/runs.css']")) document.head.append(element("link", { rel: "stylesheet", href: "/studio/runs.css" }));
  const { params } = app;
  const store = new Store({ cards: null, drawn: [], at: null, first: "loss", second: "loss", ...stateFromUrl(params) });
  let chosen = params.get("runs")?.split(",").filter(Boolean) ?? null;
  const marks = new Map();
  const problem = element("p", { class: "problem", role: "alert" });
  const failed = (error) => (problem.textContent = error === null ? "" : `${error.message} (retrying)`);
  const settingsHost = element("div");
  const settings = settingsTable(settingsHost, app, failed);
  const written = element("div");

  const choose = (ids) => {
    chosen = ids;
    for (const id of marks.keys()) if (!ids.includes(id)) marks.delete(id);
    for (const id of ids) if (!marks.has(id)) marks.set(id, lowestFree([...marks.values()]));
    params.set({ runs: ids.join(",") });
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
        choose(chosen?.filter((id) => cards.some((card) => card.id === id)) ?? initialRuns(cards));
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
  syncUrl(params, store);
  fill(host, problem, list, curvesPart, settingsPart, timelapseHost);
  return () => {
    ends.forEach((end) => end());
    fill(host);
  };
}

/** The newest runs of the newest task. */
function initialRuns(cards) {
  return cards.filter(({ task }) => task === cards[0].task).slice(0, N_INITIAL).map(({ id }) => id);
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
