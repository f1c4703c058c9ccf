// Walk through: a text on its way through the model, stage by stage, with every number.

import { button, element, fill } from "/page/dom.js";
import { Store, syncUrl } from "/page/store.js";
import { palette } from "/page/theme.js";
import { readTrace } from "/page/trace.js";
import { Scope } from "/page/view.js";
import { extraInputs, requestInput, targetChoice } from "../inputs.js";
import { inputHelp } from "../model_card.js";
import { link } from "../url_state.js";
import { Activations, Context, depth, headWidth, nLayers, towersOf } from "./activations.js";
import { controls, followScroll, keys, map, strips } from "./navigation.js";
import { stageSection } from "./panel.js";
import { pathOf } from "./stages.js";

const NEAR = "500px";
const NO_STAGES = "Walk through has no stages for this model: it shows the calculations of attention and feed-forward layers. See what this model predicts in ";
const DETERMINISTIC = { beam_size: 1, max_tokens: 20 }; // so that a link always shows the same

/** Draw the view into an element; return a function that removes it. */
export function mount(host, app) {
  const { model, params } = app;
  const input = element("input", { type: "text", "aria-label": "Text", value: params.get("text") ?? model.example.text, required: true });
  const to = targetChoice(model, params);
  const problem = element("p", { class: "problem", role: "alert" });
  const body = element("div", { class: "walk" });
  const { within, below, values, other } = extraInputs(model, params, () => anew());
  const help = inputHelp(app, (example) => {
    [input.value, other.value] = [example.text, example.second];
    to.choose(example.to);
    anew();
  });
  const form = element("form", { class: "ask" }, input, within, to.node, button("Walk through", () => {}, { type: "submit", class: "main" }));
  let remove = () => {};
  let latest = 0;
  const start = async (write = params.set) => {
    const request = ++latest;
    const language = { to: to.value() };
    const given = { text: input.value, ...values() };
    problem.textContent = "";
    help.check(requestInput(given), language.to);
    try {
      const trace = readTrace(await app.fetchJson("/trace", { model: model.id, input: requestInput(given), ...language, ...(model.view.asks_length ? DETERMINISTIC : {}), activations: [], logit_lens: false }));
      if (request !== latest) return;
      remove();
      remove = () => {};
      const [first] = towersOf(trace);
      if (first === undefined) return fill(body, element("p", { class: "explanation" }, NO_STAGES, element("a", { href: link("watch", { model: model.id, text: input.value, ...(language.to === null ? {} : language) }) }, "Watch"), "."));
      if (trace[first === "encoder" ? "source" : "inputs"].tokens.length === 0) throw new Error("The text is empty.");
      write({ ...given, ...language });
      remove = drawWalk(body, app, trace);
    } catch (error) {
      if (request !== latest) return;
      problem.textContent = error.message;
      remove(); // what is shown is of another text
      remove = () => {};
    }
  };
  const anew = () => {
    // The entries after the text are positions in the previous one.
    start((values) => params.go({ ...values, token: null, row: null, key: null }));
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    anew();
  });
  fill(host, form, below, help.node, problem, body);
  start();
  return () => {
    latest++;
    remove();
    fill(host);
  };
}

/** Return the state in the URL for this trace, with defaults. */
function initialState({ get }, trace) {
  const whole = (name, count, otherwise) => {
    const value = Number(get(name) ?? NaN);
    return Number.isInteger(value) && value >= 0 && value < count ? value : otherwise;
  };
  const [sequence, at] = (get("key") ?? "").split(".");
  const { steps, source, inputs, outputTower } = trace;
  const first = Math.max(0, source.tokens.findIndex(({ special }) => !special));
  return {
    layer: whole("layer", depth(trace), 0), head: whole("head", trace.model.n_heads, 0), number: whole("number", trace.model.d_model, 0),
    token: whole("token", source.tokens.length, outputTower === "encoder" ? (steps[0]?.row ?? first) : first),
    row: whole("row", inputs.tokens.length, trace.readsSource ? (steps[0]?.row ?? 0) : Math.floor(steps.length / 3)),
    key: trace[sequence]?.tokens?.[at] === undefined ? null : { sequence, index: Number(at) },
    stage: 0, open: get("sums") === "1", playing: false, palette: palette(),
  };
}

function drawWalk(body, app, trace) {
  const scope = new Scope(new Store(initialState(app.params, trace)));
  const stages = pathOf(trace, app.model.code);
  const activations = new Activations(app.fetchBytes, app.model.id, trace);
  scope.onEnd(() => activations.end());
  scope.onEnd(app.themed(scope.store));

  const sections = stages.map((stage, number) => Object.assign(stageSection(stage, number, (open) => scope.set({ open })), { stage, near: false, stale: true, request: 0 }));
  const context = (stage) => Object.assign(new Context(activations, trace, scope.state, stage), { pick: (_, row) => choose(stage.tower === "encoder" ? "source" : "inputs", row) });
  const choose = (sequence, index) => scope.set(sequence === "source" ? { token: index } : { row: index });
  const here = () => stages[scope.state.stage];

  const point = (sequence, index) => {
    strip.point(sequence, index);
    for (const section of sections) if (section.near) section.point(sequence, index);
  };
  const wide = headWidth(trace.model);
  const pick = ({ picks, sequences }, row, column) => {
    const own = sequences[0] === null ? {} : sequences[0] === "source" ? { token: row } : { row };
    scope.set({
      number: () => ({ ...own, number: column }),
      key: () => ({ ...own, key: { sequence: sequences[1], index: column } }),
      keyRow: () => ({ key: { sequence: sequences[0], index: row }, number: column }),
      joined: () => ({ ...own, head: Math.floor(column / wide), number: column % wide }),
      layer: () => ({ layer: Math.max(0, Math.min(depth(trace), row) - 1), number: column }),
    }[picks]?.() ?? own);
  };

  let drawing = 0;
  const draw = async (section) => {
    if (room === 0) return;
    const request = ++section.request;
    section.stale = false;
    drawing++;
    const { stage } = section;
    const c = context(stage);
    try {
      await activations.need({ names: stage.names(c), row: stage.scores?.(c) ?? null, head: c.head, weights: scope.state.open ? (stage.weights?.(c) ?? []) : [] });
      if (request !== section.request) return;
      section.draw(c, scope.state.palette, room, { pick, point });
      section.fail("");
      if (scope.state.open) section.sumLines(c);
      if (stage === here()) scope.beforeNextFrame("highlight", highlight);
      scope.beforeNextFrame("reach", reach); // sections drawn above may have moved it
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
  const highlight = () => {
    const c = context(here());
    const known = activations.arrays.has(activations.key(`${c.p}.weights`, c.head));
    const { columns, data } = known ? c.at("weights") : {};
    const shares = known ? { sequence: c.keySequence, weights: data.subarray(c.row * columns, (c.row + 1) * columns) } : null;
    strip.highlight({ chosen: { source: scope.state.token, inputs: scope.state.row }, active: c.sequence, shares, palette: scope.state.palette });
  };

  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const section = sections.find(({ node }) => node === target);
      section.near = isIntersecting;
      if (isIntersecting && section.stale) draw(section);
    }
  }, { rootMargin: NEAR });

  const strip = strips(trace, { choose, point });
  const top = element("section", { class: "walk-top", "aria-label": "Tokenized text" }, strip.node);
  const { go, reach } = followScroll(scope, sections.map(({ node }) => node), top, () => drawing > 0);
  const towers = map(stages, (tower) => nLayers(trace, tower), go);
  top.append(controls(scope, trace, stages, go, context));
  fill(body, top, element("div", { class: "walk-body" }, towers.node, element("div", { class: "stages" }, ...sections.map(({ node }) => node))));
  sections.forEach(({ node }) => observer.observe(node));
  scope.onEnd(() => observer.disconnect());
  scope.onEnd(() => fill(body));
  let room = 0; // width of every panel; measured once, as measuring forces a layout
  scope.measure(body, () => {
    towers.node.style.setProperty("top", `${top.offsetHeight + 8}px`);
    room = Math.max(200, sections[0].node.querySelector(".panels").clientWidth);
    redraw();
  });

  scope.watch(["layer", "head", "token", "row", "key", "number", "palette"], () => {
    redraw();
    scope.beforeNextFrame("highlight", highlight);
  });
  scope.watch(["open"], ({ open }) => {
    for (const section of sections) section.open = open;
    redraw();
  });
  scope.watch(["stage"], ({ stage }) => {
    towers.mark(stages[stage].box);
    scope.beforeNextFrame("highlight", highlight);
  });
  const own = (tower, value) => (towersOf(trace).includes(tower) ? value : null);
  const remember = ({ layer, head, token, row, key, number, stage, open }) => app.params.set({ stage: stages[stage].id, layer, head, token: own("encoder", token), row: own("decoder", row), key: key && `${key.sequence}.${key.index}`, number, sums: open ? 1 : null });
  syncUrl(scope, ["layer", "head", "token", "row", "key", "number", "stage", "open"], remember);
  scope.listen(document, "keydown", (event) => keys(event, scope, trace, stages, go, context));
  const wanted = stages.findIndex(({ id }) => id === app.params.get("stage"));
  if (wanted > 0) go(wanted);
  return () => scope.end();
}
