// Runs: the curves of training runs, also while they are trained; what differs between them; their models on the way.

import { button, element, fill, section } from "/drawing/dom.js";
import { Store } from "/drawing/store.js";
import { curves } from "./curves.js";
import { AXES, measured } from "./curves_data.js";
import { titleOf } from "./curves_ink.js";
import { follow } from "./runs_feed.js";
import { runsTable } from "./runs_list.js";
import { remembered, rememberIn } from "./runs_place.js";
import { samples, settingsTable } from "./runs_settings.js";
import { timelapse } from "./timelapse.js";

const [COLOURS, DASHES, AT_FIRST] = [6, 5, 3];

/** Draw the view into an element; return a function that removes it. */
export function mount(host, app) {
  if (!document.querySelector("link[href='/studio/runs.css']")) document.head.append(element("link", { rel: "stylesheet", href: "/studio/runs.css" }));
  const { place } = app;
  const store = new Store({ cards: null, drawn: [], at: null, first: "loss", second: "loss", ...remembered(place) });
  let chosen = place.get("runs")?.split(",").filter(Boolean) ?? null;
  const marks = new Map();
  const problem = element("p", { class: "problem", role: "alert" });
  const failed = (error) => (problem.textContent = error === null ? "" : `${error.message} (asked again in a moment)`);
  const settingsHost = element("div");
  const settings = settingsTable(settingsHost, app, failed);
  const written = element("div");

  const choose = (ids) => {
    chosen = ids;
    for (const id of marks.keys()) if (!ids.includes(id)) marks.delete(id);
    for (const id of ids) if (!marks.has(id)) marks.set(id, lowestFree([...marks.values()]));
    place.set({ runs: ids.join(",") });
    update();
    feed.choose(ids);
    settings.show(store.state.drawn);
  };
  const update = (cards = store.state.cards) => {
    const drawn = chosen.map((id) => cards.find((card) => card.id === id)).filter(Boolean).map((card) => ({ ...card, mark: markOf(marks.get(card.id)), records: feed.records(card.id) }));
    store.set({ cards, drawn });
  };
  const feed = follow(app.ask, {
    failed,
    changed: (cards) => {
      if (cards.length > 0 && !store.state.cards?.length) {
        store.set({ cards });
        choose(chosen?.filter((id) => cards.some((card) => card.id === id)) ?? atFirst(cards));
      } else if (cards.length > 0) update(cards);
      else store.set({ cards });
    },
  });

  const ends = [() => feed.end()];
  const list = section("runs-list", "Runs", "Each run is one training of a model. Choose those to compare; a run that is being trained goes on by itself.", element("div", { class: "scroller runs-scroller", tabindex: 0, role: "region", "aria-label": "All runs" }, runsTable(store, choose)));
  const charts = ["first", "second"].map((entry) => chartPart(store, entry, ends));
  const curvesPart = section("runs-curves", "Curves", "The loss says how wrong the model was about its examples: it falls while the model learns. Scores are measured on examples it was not trained on. Drag across a picture to look closer.",
    controls(store), element("div", { class: "runs-charts" }, ...charts), written);
  const settingsPart = section("runs-compare", "What differs", "The settings with which the chosen runs were really made.", settingsHost);
  const lapseHost = element("div");
  ends.push(timelapse(lapseHost, app, store));
  store.watch(["drawn"], ({ drawn }) => fill(written, ...samples(drawn)));
  rememberIn(place, store);
  fill(host, problem, list, curvesPart, settingsPart, lapseHost);
  return () => {
    ends.forEach((end) => end());
    fill(host);
  };
}

/** The newest runs of the newest task. */
function atFirst(cards) {
  return cards.filter(({ task }) => task === cards[0].task).slice(0, AT_FIRST).map(({ id }) => id);
}

function lowestFree(taken) {
  return [...taken.keys(), taken.length].find((number) => !taken.includes(number));
}

function markOf(number) {
  return `run-colour-${number % COLOURS} run-dash-${number % DASHES}`;
}

/** A picture of curves under the choice of what it shows; where a wish was not measured, the usual measure. */
function chartPart(store, entry, ends) {
  const wish = `${entry}Wish`;
  const choice = element("select", { "aria-label": `Measure of the ${entry} picture`, on: { change: () => store.set({ [wish]: choice.value }) } });
  store.watch(["drawn", wish], ({ drawn, [wish]: wished }) => {
    const names = measured(drawn);
    const now = names.includes(wished) ? wished : names.find((name) => (name === "loss") === (entry === "first")) ?? "loss";
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
  const reset = button("Show all", () => store.set({ range: null }));
  store.watch(["range"], ({ range }) => (reset.disabled = range === null));
  return element("div", { class: "ask runs-controls" }, element("label", { for: "runs-axis" }, "Against "), axis, element("span", {}, "Logarithmic:"), box("logX", "across"), box("logY", "up"), element("label", { for: "runs-smooth" }, "Smoothing "), smooth, reset);
}
