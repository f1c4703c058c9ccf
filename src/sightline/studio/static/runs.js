// Runs: the curves of training runs, also while they are trained; what differs between them; their models on the way.

import { button, element, fill, section } from "/drawing/dom.js";
import { counted, short } from "/drawing/numbers.js";
import { Store } from "/drawing/store.js";
import { curves, swatch, titleOf } from "./curves.js";
import { AXES, measured } from "./curves_data.js";
import { follow } from "./runs_feed.js";
import { samples, settingsTable } from "./runs_settings.js";
import { timelapse } from "./timelapse.js";

const [COLOURS, DASHES, AT_FIRST] = [6, 5, 3];
const STATES = { ended: "ended", training: "● training", silent: "stopped, or silent" };

/** Draw the view into an element; return a function that removes it. */
export function mount(host, app) {
  if (!document.querySelector("link[href='/studio/runs.css']")) document.head.append(element("link", { rel: "stylesheet", href: "/studio/runs.css" }));
  const { place } = app;
  const store = new Store({
    ...{ cards: null, drawn: [], at: null, axis: place.get("x") in AXES ? place.get("x") : "step", smoothing: Number(place.get("smooth") ?? 0) || 0 },
    ...{ logX: place.get("logx") !== null, logY: place.get("logy") !== null, range: rangeOf(place.get("zoom")), first: place.get("first") ?? "loss", second: place.get("second") },
  });
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
  const list = section("runs-list", "Runs", "Each run is one training of a model. Choose those to compare; a run that is being trained goes on by itself.", element("div", { class: "scroller runs-scroller" }, runsTable(store, choose)));
  const charts = ["first", "second"].map((entry) => chartPart(store, entry, ends));
  const curvesPart = section("runs-curves", "Curves", "The loss says how wrong the model was about its examples: it falls while the model learns. Scores are measured on examples it was not trained on. Drag across a picture to look closer.",
    controls(store), element("div", { class: "runs-charts" }, ...charts), written);
  const settingsPart = section("runs-compare", "What differs", "The settings with which the chosen runs were really made.", settingsHost);
  const lapseHost = element("div");
  ends.push(timelapse(lapseHost, app, store));
  store.watch(["drawn"], ({ drawn }) => fill(written, ...samples(drawn)));
  store.watch(["axis", "smoothing", "logX", "logY", "range", "first", "second"], ({ axis, smoothing, logX, logY, range, first, second }) =>
    place.set({ x: axis === "step" ? null : axis, smooth: smoothing || null, logx: logX ? 1 : null, logy: logY ? 1 : null, zoom: range?.map((value) => Number(value.toPrecision(6))).join("-"), first: first === "loss" ? null : first, second }));
  fill(host, problem, list, curvesPart, settingsPart, lapseHost);
  return () => {
    ends.forEach((end) => end());
    fill(host);
  };
}

function rangeOf(text) {
  const ends = (text ?? "").split("-").map(Number);
  return ends.length === 2 && ends[0] < ends[1] ? ends : null;
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

/** The table of all runs, with a box before each. */
function runsTable(store, choose) {
  const head = ["Run", "State", "Score", "Steps", "Task", "Began"].map((name) => element("th", { scope: "col" }, name));
  const body = element("tbody");
  let before = "";
  store.watch(["cards", "drawn"], ({ cards, drawn }) => {
    if (!cards?.length) return fill(body, element("tr", {}, element("td", { colspan: 6, class: "waiting" }, cards === null ? "…" : "There is no run in the folder of this server yet. It appears here as soon as one begins.")));
    const rows = cards.map((card) => [card, drawn.find(({ id }) => id === card.id)]);
    const now = JSON.stringify(rows.map(([card, run]) => [card.id, card.state, run?.mark, run?.records.at(-1)?.step]));
    if (now === before) return;
    before = now;
    const focused = body.contains(document.activeElement) ? document.activeElement.value : null;
    fill(body, ...rows.map(([card, run]) => row(card, run, () => choose(run ? drawn.filter(({ id }) => id !== card.id).map(({ id }) => id) : [...drawn.map(({ id }) => id), card.id]))));
    body.querySelector(`input[value="${focused}"]`)?.focus();
  });
  return element("table", { class: "runs-table" }, element("thead", {}, element("tr", {}, ...head)), body);
}

function row(card, run, change) {
  const box = element("input", { type: "checkbox", value: card.id, checked: run !== undefined, on: { change } });
  const scores = Object.entries(scoresOf(card, run)).filter(([name]) => name !== "validation_loss");
  const name = element("th", { scope: "row" }, element("label", {}, box, run ? swatch(run) : element("span", { class: "no-swatch" }), card.name));
  const steps = run?.records.at(-1)?.step;
  const score = scores.slice(0, 2).map(([one, value]) => `${titleOf(one)} ${short(value)}`).join(", ");
  return element("tr", {}, name, element("td", { class: card.state }, STATES[card.state]), ...[score, steps === undefined ? "" : counted(steps), card.task, card.began.slice(0, 16)].map((text) => element("td", {}, text)));
}

/** The scores with which a run ended, or those of its last validation. */
function scoresOf(card, run) {
  if (Object.keys(card.scores).length > 0) return card.scores;
  const { step, best_step: best, ...last } = run?.records.findLast((record) => typeof record.validation_loss === "number") ?? {};
  return last;
}

/** A picture of curves under the choice of what it shows. */
function chartPart(store, entry, ends) {
  const choice = element("select", { "aria-label": entry === "first" ? "Measure of the first picture" : "Measure of the second picture", on: { change: () => store.set({ [entry]: choice.value }) } });
  let before = "";
  store.watch(["drawn", entry], ({ drawn, [entry]: now }) => {
    const names = measured(drawn).filter((name) => name !== "validation_loss" || entry === "second");
    const wanted = now ?? names.find((name) => name !== "loss") ?? "loss";
    if (now === null && names.length > 1 && wanted !== now) return store.set({ [entry]: wanted });
    const key = [wanted, ...names].join(" ");
    if (key !== before) fill(choice, ...[...new Set([wanted, ...names])].map((name) => element("option", { value: name, selected: name === wanted }, titleOf(name))));
    before = key;
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
