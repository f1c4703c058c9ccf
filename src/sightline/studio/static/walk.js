// Walk through: one's own sentence on its way through the model, stage by stage, with every number.

import { button, element, fill } from "/drawing/dom.js";
import { Scope } from "/drawing/scope.js";
import { Store } from "/drawing/store.js";
import { quoted } from "/drawing/texts.js";
import { palette } from "/drawing/theme.js";
import { Context, nLayers } from "./walk-context.js";
import { map } from "./walk-map.js";
import { pathOf } from "./walk-path.js";
import { Slices } from "./walk-slices.js";
import { stageSection } from "./walk-stage.js";
import { strips } from "./walk-strip.js";

const PACE = 5000;
const NEAR = "500px";
let styled = null; // the style sheet, from when it is first needed

/** Draw the view into an element; return a function that removes it. */
export function mount(host, app) {
  styled ??= new Promise((done) => document.head.append(element("link", { rel: "stylesheet", href: "/studio/walk.css", on: { load: done, error: done } })));
  const { model, place } = app;
  const input = element("input", { type: "text", "aria-label": "Sentence", value: place.get("text") ?? model.example.text, required: true });
  const to = element("select", { "aria-label": "Into" }, ...model.languages.map((name) => element("option", { value: name, selected: name === (place.get("to") ?? model.example.to) }, name)));
  const problem = element("p", { class: "problem", role: "alert" });
  const body = element("div", { class: "walk" });
  const form = element("form", { class: "ask" }, input, model.languages.length > 1 ? to : null, button("Walk through", () => {}, { type: "submit", class: "main" }));
  let remove = () => {};
  let latest = 0;
  const start = async () => {
    const turn = ++latest;
    const language = model.languages.length > 1 ? { to: to.value } : {};
    problem.textContent = "";
    try {
      const trace = await app.ask("/trace", { model: model.id, input: input.value, ...language, probes: [], readout: false });
      await styled; // pictures are as wide as it lets them be
      if (turn !== latest) return;
      if (rowsOf(trace) === 0) throw new Error("There is nothing to follow: type a sentence.");
      remove();
      place.set({ text: input.value, ...language });
      remove = walk(body, app, trace);
    } catch (error) {
      if (turn === latest) problem.textContent = error.message;
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    place.set({ token: null, row: null, key: null });
    start();
  });
  fill(host, form, problem, body);
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
  const layers = Math.max(...["encoder", "decoder"].map((tower) => nLayers(trace, tower) ?? 0));
  const [passage, at] = (get("key") ?? "").split(".");
  const { steps, source, inputs } = trace;
  const first = Math.max(0, source.tokens.findIndex(({ special }) => !special));
  return {
    layer: whole("layer", layers, 0), head: whole("head", trace.model.n_heads, 0), number: whole("number", trace.model.d_model, 0),
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
  const pick = ({ picks, passages }, row, column) => {
    const own = passages[0] === undefined ? {} : passages[0] === "source" ? { token: row } : { row };
    scope.set({
      number: () => ({ ...own, number: column }),
      key: () => ({ ...own, key: { passage: passages[1], place: column } }),
      keyRow: () => ({ key: { passage: passages[0], place: row }, number: column }),
      keyColumn: () => ({ key: { passage: context(here()).keyPassage, place: column } }),
      joined: () => ({ ...own, head: Math.floor(column / (trace.model.d_model / trace.model.n_heads)), number: column % (trace.model.d_model / trace.model.n_heads) }),
      layer: () => ({ layer: Math.max(0, Math.min(context(here()).count, row) - 1), number: column }),
    }[picks]?.() ?? own);
  };

  const draw = async (section) => {
    if (room === 0) return;
    const turn = ++section.turn;
    section.stale = false;
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

  // Where one is: the stage that stands below the sentence. `aim` is where one was sent, until one scrolls by oneself.
  let aim = null;
  const reach = () => aim !== null && scrollTo({ top: sections[aim].node.getBoundingClientRect().top + scrollY - top.offsetHeight - 8, behavior: "instant" });
  const go = (at) => {
    aim = Math.max(0, Math.min(stages.length - 1, at));
    scope.set({ stage: aim });
    reach();
  };
  const arrive = () => {
    if (aim !== null) return;
    const line = top.offsetHeight + 60;
    scope.set({ stage: Math.max(0, sections.findLastIndex(({ node }) => node.getBoundingClientRect().top <= line)) });
  };
  for (const name of ["wheel", "touchmove", "pointerdown"]) scope.listen(window, name, () => (aim = null));
  scope.listen(window, "keydown", ({ key }) => {
    if (/^(Page|Home|End|Tab)/.test(key)) aim = null;
  });
  let waiting = false;
  scope.listen(window, "scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (body.isConnected) arrive();
    });
  });
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const section = sections.find(({ node }) => node === target);
      section.near = isIntersecting;
      if (isIntersecting && section.stale) draw(section);
    }
  }, { rootMargin: NEAR });

  const strip = strips(trace, { choose, point });
  const towers = map(stages, (tower) => nLayers(trace, tower), go);
  const controls = controlsOf(scope, trace, stages, go, context);
  const top = element("section", { class: "walk-top", "aria-label": "The sentence" }, strip.node, controls);
  fill(body, top, element("div", { class: "way" }, towers.node, element("div", { class: "stages" }, ...sections.map(({ node }) => node))));
  sections.forEach(({ node }) => observer.observe(node));
  scope.onEnd(() => observer.disconnect());
  scope.onEnd(() => fill(body));
  let room = 0; // of every picture; measured once, as to ask means to lay out everything
  scope.measure(body, () => {
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
    sections.forEach(({ node }, at) => node.classList.toggle("here", at === stage));
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

/** Layer, head, and the buttons that step. */
function controlsOf(scope, trace, stages, go, context) {
  const choice = (label, name, count) => {
    const node = element("select", { "aria-label": label, on: { change: () => scope.set({ [name]: Number(node.value) }) } }, ...Array.from({ length: count }, (_, at) => element("option", { value: at }, `${label} ${at}`)));
    scope.watch([name], (state) => (node.value = state[name]));
    return node;
  };
  const layers = Math.max(...["encoder", "decoder"].map((tower) => nLayers(trace, tower) ?? 0));
  const list = element("select", { class: "which", "aria-label": "Stage", on: { change: () => go(Number(list.value)) } }, ...stages.map(({ title, tower }, at) => element("option", { value: at }, `${at + 1} · ${trace.family === "transformer" ? `${tower}: ` : ""}${title}`)));
  const back = button("◀", () => go(scope.state.stage - 1), { "aria-label": "One stage back", title: "One stage back (↑)" });
  const on = button("▶", () => go(scope.state.stage + 1), { "aria-label": "One stage on", title: "One stage on (↓)" });
  const run = button("Play", () => scope.set({ playing: !scope.state.playing }), { class: "play", title: "Play (space)" });
  const chosen = element("output", { class: "who note", "aria-live": "polite" });
  scope.watch(["stage", "token", "row"], ({ stage }) => {
    list.value = stage;
    back.disabled = stage === 0;
    on.disabled = stage === stages.length - 1;
    const c = context(stages[stage]);
    const step = trace.steps[c.step];
    const writes = c.tower === "decoder" && step?.row === c.row ? `, writes ${quoted(step.candidates[step.chosen].text)}` : "";
    chosen.textContent = `Following ${quoted(c.rowNames[c.row])}${writes}`;
  });
  let timer = null;
  scope.watch(["playing"], ({ playing }) => {
    run.textContent = playing ? "Pause" : "Play";
    clearInterval(timer);
    if (playing) timer = setInterval(() => (scope.state.stage < stages.length - 1 ? go(scope.state.stage + 1) : scope.set({ playing: false })), PACE);
  });
  scope.onEnd(() => clearInterval(timer));
  return element("div", { class: "steering" }, back, list, on, run, choice("Layer", "layer", layers), choice("Head", "head", trace.model.n_heads), chosen);
}

/** Up and down step through stages, left and right through tokens; with shift through layers and heads; space plays; Escape lets go. */
function keys(event, scope, trace, stages, go, context) {
  const { key, shiftKey, target } = event;
  const typing = target instanceof Element && target.closest("input, select, textarea, dialog, .scroller") !== null;
  const pressing = key === " " && target instanceof Element && target.closest("button, summary, a") !== null;
  if (typing || pressing || event.altKey || event.ctrlKey || event.metaKey) return;
  const { state } = scope;
  const c = context(stages[state.stage]);
  const layers = Math.max(...["encoder", "decoder"].map((tower) => nLayers(trace, tower) ?? 0));
  const within = (value, count) => Math.max(0, Math.min(count - 1, value));
  const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[key];
  const along = key === "ArrowLeft" || key === "ArrowRight";
  if (key === " ") scope.set({ playing: !state.playing });
  else if (key === "Escape") scope.set({ playing: false, key: null, number: 0 });
  else if (by === undefined) return;
  else if (shiftKey && along) scope.set({ head: within(state.head + by, trace.model.n_heads) });
  else if (shiftKey) scope.set({ layer: within(state.layer + by, layers) });
  else if (along) scope.set({ [c.tower === "encoder" ? "token" : "row"]: within(c.row + by, c.rowNames.length) });
  else go(state.stage + by);
  event.preventDefault();
}
