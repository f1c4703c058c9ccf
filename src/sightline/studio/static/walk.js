// Walk through: one's own sentence on its way through the model, stage by stage, with every number.

import { button, element, fill } from "/drawing/dom.js";
import { Scope } from "/drawing/scope.js";
import { Store } from "/drawing/store.js";
import { palette } from "/drawing/theme.js";
import { beside, inputOf } from "./beside.js";
import { Context, depth, nLayers } from "./walk_context.js";
import { map } from "./walk_map.js";
import { pathOf } from "./walk_path.js";
import { Slices } from "./walk_slices.js";
import { stageSection } from "./walk_stage.js";
import { keys, steering } from "./walk_steering.js";
import { strips } from "./walk_strip.js";
import { whereabouts } from "./walk_whereabouts.js";

const NEAR = "500px";
const NO_CHANCE = { beam: 1, max_tokens: 20 }; // so that a link shows the same to everyone
let styled = null; // the style sheet, from when it is first needed

/** Draw the view into an element; return a function that removes it. */
export function mount(host, app) {
  styled ??= new Promise((done) => document.head.append(element("link", { rel: "stylesheet", href: "/studio/walk.css", on: { load: done, error: done } })));
  const { model, place } = app;
  const input = element("input", { type: "text", "aria-label": "Sentence", value: place.get("text") ?? model.example.text, required: true });
  const to = element("select", { "aria-label": "Into" }, ...model.languages.map((name) => element("option", { value: name, selected: name === (place.get("to") ?? model.example.to) }, name)));
  const problem = element("p", { class: "problem", role: "alert" });
  const body = element("div", { class: "walk" });
  const { within, below, wishes } = beside(model, place, () => anew());
  const form = element("form", { class: "ask" }, input, within, model.languages.length > 1 ? to : null, button("Walk through", () => {}, { type: "submit", class: "main" }));
  let remove = () => {};
  let latest = 0;
  const start = async () => {
    const turn = ++latest;
    const language = model.languages.length > 1 ? { to: to.value } : {};
    const given = { text: input.value, ...wishes() };
    problem.textContent = "";
    try {
      const trace = await app.ask("/trace", { model: model.id, input: inputOf(given), ...language, ...(model.task === "language-model" ? NO_CHANCE : {}), probes: [], readout: false });
      await styled; // pictures are as wide as it lets them be
      if (turn !== latest) return;
      if (rowsOf(trace) === 0) throw new Error("There is nothing to follow: type a sentence.");
      remove();
      place.set({ ...given, ...language });
      remove = walk(body, app, trace);
    } catch (error) {
      if (turn === latest) problem.textContent = error.message;
    }
  };
  const anew = () => {
    place.set({ token: null, row: null, key: null }); // places in what was read before
    start();
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    anew();
  });
  fill(host, form, below, problem, body);
  start();
  return () => {
    latest++;
    remove();
    fill(host);
  };
}

function rowsOf(trace) {
  return trace[trace.family === "gpt" ? "inputs" : "source"].tokens.length;
}

/** The wishes of the address for this trace, as a state. */
function opening({ get }, trace) {
  const whole = (name, count, otherwise) => {
    const value = Number(get(name) ?? NaN);
    return Number.isInteger(value) && value >= 0 && value < count ? value : otherwise;
  };
  const [passage, at] = (get("key") ?? "").split(".");
  const { steps, source, inputs } = trace;
  const first = Math.max(0, source.tokens.findIndex(({ special }) => !special));
  return {
    layer: whole("layer", depth(trace), 0), head: whole("head", trace.model.n_heads, 0), number: whole("number", trace.model.d_model, 0),
    token: whole("token", source.tokens.length, trace.family === "bert" ? (steps[0]?.row ?? first) : first),
    row: whole("row", inputs.tokens.length, trace.family === "gpt" ? (steps[0]?.row ?? 0) : Math.floor(steps.length / 3)),
    key: trace[passage]?.tokens?.[at] === undefined ? null : { passage, place: Number(at) },
    stage: 0, open: get("sums") === "1", playing: false, palette: palette(),
  };
}

function walk(body, app, trace) {
  const scope = new Scope(new Store(opening(app.place, trace)));
  const stages = pathOf(trace);
  const slices = new Slices(app.askBytes, app.model.id, trace);
  scope.onEnd(() => slices.end());
  scope.onEnd(app.themed(scope.store));

  const sections = stages.map((stage, number) => Object.assign(stageSection(stage, number, (open) => scope.set({ open })), { stage, near: false, stale: true, turn: 0 }));
  const context = (stage) => Object.assign(new Context(slices, trace, scope.state, stage), { pick: (_, row) => choose(stage.tower === "encoder" ? "source" : "inputs", row) });
  const choose = (passage, place) => scope.set(passage === "source" && trace.family !== "gpt" ? { token: place } : { row: place });
  const here = () => stages[scope.state.stage];

  const point = (passage, place) => {
    strip.point(passage, place);
    for (const section of sections) if (section.near) section.point(passage, place);
  };
  const wide = trace.model.d_model / trace.model.n_heads;
  const pick = ({ picks, passages }, row, column) => {
    const own = passages[0] === null ? {} : passages[0] === "source" ? { token: row } : { row };
    scope.set({
      number: () => ({ ...own, number: column }),
      key: () => ({ ...own, key: { passage: passages[1], place: column } }),
      keyRow: () => ({ key: { passage: passages[0], place: row }, number: column }),
      joined: () => ({ ...own, head: Math.floor(column / wide), number: column % wide }),
      layer: () => ({ layer: Math.max(0, Math.min(depth(trace), row) - 1), number: column }),
    }[picks]?.() ?? own);
  };

  let drawing = 0;
  const draw = async (section) => {
    if (room === 0) return;
    const turn = ++section.turn;
    section.stale = false;
    drawing++;
    const { stage } = section;
    const c = context(stage);
    try {
      await slices.need({ names: stage.names(c), row: stage.scores?.(c) ?? null, head: c.head, weights: scope.state.open ? (stage.weights?.(c) ?? []) : [] });
      if (turn !== section.turn) return;
      section.draw(c, scope.state.palette, room, { pick, point });
      section.fail("");
      if (scope.state.open) section.sumLines(c);
      if (stage === here()) scope.afterwards("light", light);
      scope.afterwards("reach", reach); // what is drawn above pushes it away
    } catch (error) {
      if (error.name !== "AbortError") section.fail(error.message);
    } finally {
      drawing--;
    }
  };
  const redraw = () => {
    for (const section of sections) {
      section.stale = true;
      if (section.near) draw(section);
    }
  };
  const light = () => {
    const c = context(here());
    const known = slices.arrays.has(slices.key(`${c.p}.weights`, c.head));
    const { columns, data } = known ? c.at("weights") : {};
    const shares = known ? { passage: c.keyPassage, weights: data.subarray(c.row * columns, (c.row + 1) * columns) } : null;
    strip.light({ chosen: { source: scope.state.token, inputs: scope.state.row }, active: c.passage, shares, palette: scope.state.palette });
  };

  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const section = sections.find(({ node }) => node === target);
      section.near = isIntersecting;
      if (isIntersecting && section.stale) draw(section);
    }
  }, { rootMargin: NEAR });

  const strip = strips(trace, { choose, point });
  const top = element("section", { class: "walk-top", "aria-label": "The sentence" }, strip.node);
  const { go, reach } = whereabouts(scope, sections.map(({ node }) => node), top, () => drawing > 0);
  const towers = map(stages, (tower) => nLayers(trace, tower), go);
  top.append(steering(scope, trace, stages, go, context));
  fill(body, top, element("div", { class: "way" }, towers.node, element("div", { class: "stages" }, ...sections.map(({ node }) => node))));
  sections.forEach(({ node }) => observer.observe(node));
  scope.onEnd(() => observer.disconnect());
  scope.onEnd(() => fill(body));
  let room = 0; // of every picture; measured once, as to ask means to lay out everything
  scope.measure(body, () => {
    towers.node.style.setProperty("top", `${top.offsetHeight + 8}px`);
    room = Math.max(200, sections[0].node.querySelector(".panels").clientWidth);
    redraw();
  });

  scope.watch(["layer", "head", "token", "row", "key", "number", "palette"], () => {
    redraw();
    scope.afterwards("light", light);
  });
  scope.watch(["open"], ({ open }) => {
    for (const section of sections) section.open = open;
    redraw();
  });
  scope.watch(["stage"], ({ stage }) => {
    towers.mark(stages[stage].box);
    scope.afterwards("light", light);
  });
  let timer = null;
  const remember = ({ layer, head, token, row, key, number, stage, open }) => app.place.set({ stage: stages[stage].id, layer, head, token: trace.family === "gpt" ? null : token, row: trace.family === "bert" ? null : row, key: key && `${key.passage}.${key.place}`, number, sums: open ? 1 : null });
  scope.watch(["layer", "head", "token", "row", "key", "number", "stage", "open"], () => {
    clearTimeout(timer);
    timer = setTimeout(() => remember(scope.state), 200);
  });
  scope.onEnd(() => clearTimeout(timer));
  scope.listen(document, "keydown", (event) => keys(event, scope, trace, stages, go, context));
  const wanted = stages.findIndex(({ id }) => id === app.place.get("stage"));
  if (wanted > 0) go(wanted);
  return () => scope.end();
}
