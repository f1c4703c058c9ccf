// Watch: run the model on a text and show every attention head of every layer at every step of the output. Here: the form,
// its requests, and long texts, which are loaded one layer at a time.

import { element, fill } from "/page/dom.js";
import { createStore, formatHeads, parseHeads, showTrace, stateFromUrl, syncUrl, urlOf } from "/page/store.js";
import { readTrace } from "/page/trace.js";
import { Scope } from "/page/view.js";
import { extraInputs, requestInput, targetChoice } from "../inputs.js";
import { inputHelp } from "../model_card.js";
import { layout } from "./layout.js";

const MAX_AUTOPLAY_STEPS = 40; // longer outputs do not play automatically
const BEAMS = [1, 4, 8];
const MAX_QUICK_COST = 2e8; // parameters times characters up to which every head is ablated without asking
const TOO_LARGE = "trace_too_large"; // codes of the server's errors
const NO_LAYER = "no_such_layer";
const TOO_LONG = "This text is too long: even the trace of one layer is too large. Use a shorter text.";

/** Draw the view into an element; return a function that removes it. */
export function mount(host, app) {
  const body = element("div", { class: "watch", "aria-busy": "true" });
  const form = createForm(app, () => load({ plays: true, chosen: true }));
  const shown = { baseline: null, request: null, store: null, end: () => {} };
  let pending = new AbortController();
  const layers = oneLayerAtATime(app.params, () => load({ ablated: shown.store?.state.ablation.ablated ?? parseHeads(app.params.get("ablated")) }));
  fill(host, form.node, layers.node, body);

  const read = async (body, signal) => readTrace(await app.fetchBytes("/trace", body, { signal }));
  const fetchTrace = (body, signal) => layers.fetchTrace(body, (slice) => read(slice, signal));

  /** Load the trace of the form's input, with some heads ablated; a pending request is canceled. */
  async function load({ ablated = [], plays = false, chosen = false, measured = app.params.get("ablation") === "1" } = {}) {
    pending.abort();
    const { signal } = (pending = new AbortController());
    const values = form.values();
    const requests = requestsFor(app.model, values, measured);
    const request = () => JSON.stringify([requests.baseline, layers.layer()]);
    body.ariaBusy = "true";
    form.problem("");
    app.params[chosen ? "go" : "set"]({ ...values, ablation: measured ? 1 : null, ablated: formatHeads(ablated) || null });
    form.check(requestInput(values), values.to);
    try {
      const kept = shown.baseline !== null && shown.request === request();
      const baseline = kept ? shown.baseline : await fetchTrace(requests.baseline, signal);
      const [trace, forced] = ablated.length === 0 ? [baseline, null] : await Promise.all([
        fetchTrace(requests.ablated(groupByAttention(ablated)), signal),
        read(requests.forced(baseline, groupByAttention(ablated)), signal),
      ]);
      if (signal.aborted) return;
      Object.assign(shown, { baseline, request: request() });
      body.hidden = false;
      draw(trace, { ablated, forced, baseline }, { plays, kept });
    } catch (error) {
      if (error.name === "AbortError") return;
      form.problem(error.message);
      body.hidden = true; // what it shows is of another input
      shown.store?.set({ playing: false });
    }
    if (!signal.aborted) body.ariaBusy = "false";
  }

  function draw(trace, ablation, { plays, kept }) {
    const { store } = shown;
    if (store === null) return open(trace, ablation);
    const { step } = store.state;
    store.set({ ablation });
    showTrace(store, trace);
    if (kept) store.set({ step: Math.max(0, Math.min(step, trace.steps.length - 1)) });
    const moves = plays && trace.steps.length <= MAX_AUTOPLAY_STEPS && !matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (moves && trace.steps.length > 1) store.set({ playing: true });
  }

  function open(trace, ablation) {
    const store = createStore(trace, { ...stateFromUrl(app.params, trace), ablation });
    const acts = { ablate: (ablated) => load({ ablated, chosen: true }), measure: () => load({ ablated: store.state.ablation.ablated, measured: true }) };
    const scope = new Scope(store);
    scope.onEnd(app.themed(store));
    layout(body, scope, acts);
    let kept = null; // what the URL has
    scope.watch(["trace"], (state) => (kept = state));
    syncUrl(scope, ["heads", "step", "unit", "picture", "ablation"], (state) => {
      const selects = ["heads", "picture"].some((name) => state[name] !== kept[name]);
      kept = state;
      app.params[selects ? "go" : "set"]({ ...urlOf(state), ablated: formatHeads(state.ablation.ablated) || null });
    });
    Object.assign(shown, { store, end: () => scope.end() });
  }

  load({ ablated: parseHeads(app.params.get("ablated")) });
  return () => {
    pending.abort();
    shown.end();
    fill(host);
  };
}

/** Create the form: {node, values, check, problem}, the current values and functions that check an input and show an error. */
function createForm(app, submit) {
  const { model, params } = app;
  const { label, verb, beam: usual, asks_length: asksLength } = model.view;
  const text = element("input", { type: "text", "aria-label": label, placeholder: `${label} …`, autocomplete: "off", spellcheck: "false", dir: "auto" });
  text.value = params.get("text") ?? model.example.text;
  const beams = [...new Set([...BEAMS, usual])].sort((one, other) => one - other).map(String);
  const to = targetChoice(model, params);
  const beam = model.generates ? select("Beam", beams.map((size) => [size, size]), params.get("beam") ?? String(usual), "Beam size: hypotheses kept at each step") : null;
  const length = asksLength ? select("Tokens", ["10", "20", "40", "100", "200"].map((count) => [count, count]), params.get("length") ?? "20", "Maximum number of new tokens") : null;
  const { within, below, values, other } = extraInputs(model, params, submit);
  const problem = element("p", { class: "problem", role: "alert" });
  const go = element("button", { type: "submit", class: "main" }, verb);
  const node = element("form", { class: "ask", on: { submit: (event) => { event.preventDefault(); submit(); } } }, text, within, to.node, ...[beam, length].map((one) => one?.node), go);
  const value = (one) => one?.input.value ?? null;
  const help = inputHelp(app, (example) => {
    [text.value, other.value] = [example.text, example.second];
    to.choose(example.to);
    submit();
  });
  return {
    node: element("div", {}, node, below, help.node, problem),
    check: help.check,
    values: () => ({ text: text.value, to: to.value(), beam: value(beam), length: value(length), ...values() }),
    problem: (message) => fill(problem, message),
  };
}

function select(label, options, chosen, title = null) {
  const input = element("select", { "aria-label": label }, ...options.map(([value, name]) => element("option", { value }, name)));
  const there = options.some(([value]) => value === chosen);
  input.value = there ? chosen : options[0][0];
  return { input, node: element("label", { class: "choice", title }, `${label} `, input) };
}

/** Return the bodies of the requests to /trace for the values of the form. */
function requestsFor(model, values, measured) {
  const { to, beam, length } = values;
  const given = { model: model.id, input: requestInput(values), format: "drawing", ...(to === null ? {} : { to }) };
  const generation = { ...(beam === null ? {} : { beam_size: Number(beam), hypotheses: Number(beam) > 1 }), ...(length === null ? {} : { max_tokens: Number(length) }) };
  const ablation = measured || model.parameters * [given.input].flat().join("").length < MAX_QUICK_COST;
  return {
    baseline: { ...given, ...generation, head_ablation: ablation },
    ablated: (heads) => ({ ...given, ...generation, ablate_heads: heads, head_ablation: ablation }),
    // Score the original output with ablated heads: forced on a model that generates; others predict the same positions anyway.
    forced: (baseline, heads) => ({ ...given, ablate_heads: heads, layers: [0], heads: [0], logit_lens: false, candidates: 100, ...(beam === null ? {} : { target: baseline.target.text }) }),
  };
}

/** Return heads as in a request: {attention: [numbers]}. */
function groupByAttention(heads) {
  const found = {};
  for (const { name, head } of heads) (found[name] ??= []).push(head);
  return found;
}

/** Create the layer selector: {node, fetchTrace, layer}; `changed` is called when another layer is selected. */
function oneLayerAtATime(params, changed) {
  const choose = () => {
    layer = Number(input.value);
    changed();
  };
  const input = element("select", { on: { change: choose } });
  const node = element("p", { class: "earlier", hidden: true }, "This text is long: one layer is loaded at a time. ", element("label", { class: "choice" }, "Layer ", input));
  let layer = Math.max(0, Math.floor(Number(params.get("layer") ?? 0))) || 0;
  let long = null; // the request that was too large

  /** Fetch the trace of all layers, or of one. */
  async function fetchTrace(request, fetch) {
    const key = JSON.stringify([request.input, request.max_tokens]);
    try {
      if (key !== long) {
        const trace = await fetch(request);
        [node.hidden, long] = [true, null];
        params.set({ layer: null });
        return trace;
      }
    } catch (error) {
      if (error.code !== TOO_LARGE) throw error;
    }
    try {
      const trace = await fetch({ ...request, layers: [layer] }).catch((error) => {
        if (error.code !== NO_LAYER) throw error;
        layer = 0; // the URL was of another model
        return fetch({ ...request, layers: [layer] });
      });
      long = key;
      offer(trace.model);
      return trace;
    } catch (error) {
      throw error.code === TOO_LARGE ? new Error(TOO_LONG) : error;
    }
  }

  function offer({ n_layers: all, n_encoder_layers: read, n_decoder_layers: written }) {
    const count = all ?? Math.min(read, written);
    if (input.options.length !== count) fill(input, ...Array.from({ length: count }, (_, at) => element("option", { value: at }, at)));
    input.value = layer;
    node.hidden = false;
    params.set({ layer });
  }

  return { node, fetchTrace, layer: () => (long === null ? null : layer) };
}
