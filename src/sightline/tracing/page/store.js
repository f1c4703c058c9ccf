// The state of the views: the trace, the selected heads, step, unit and picture; which row or column of the attention matrix
// is highlighted; and the state in the URL.

import { exact } from "./text.js";
import { palette } from "./theme.js";

const URL_MS = 200; // browsers limit the rate of history updates

/** One object, with listeners to changes of its entries. */
export class Store {
  constructor(state) {
    this.state = state;
    this.listeners = [];
    this.waiting = new Map();
  }

  /** Call back when one of the named entries changes, and once now; return a function that unsubscribes. */
  watch(names, listener) {
    const one = { names: new Set(names), listener, removed: false };
    this.listeners.push(one);
    listener(this.state);
    return () => {
      one.removed = true;
      this.listeners = this.listeners.filter((other) => other !== one);
    };
  }

  /** Change entries; listeners are only called for values that differ. */
  set(changes) {
    const changed = Object.keys(changes).filter((name) => this.state[name] !== changes[name]);
    if (changed.length === 0) return;
    this.state = { ...this.state, ...changes };
    for (const one of [...this.listeners]) {
      if (!one.removed && changed.some((name) => one.names.has(name))) one.listener(this.state);
    }
  }

  /** Run something before the next frame; of several with the same key, only the last. Measuring and scrolling force a
   *  layout, which should happen once, after everything is drawn. */
  beforeNextFrame(key, act) {
    if (this.waiting.size === 0) requestAnimationFrame(() => this.run());
    this.waiting.set(key, act);
  }

  run() {
    const acts = [...this.waiting.values()];
    this.waiting.clear();
    for (const act of acts) act();
  }
}

/** Create a store for a trace; `overrides` replace entries of the initial state. */
export function createStore(trace, overrides = {}) {
  return new Store({ ...start(trace), heads: initialHeads(trace), unit: "token", picture: "lines", palette: palette(), ...overrides });
}

/** Show another trace in the same views; selected heads that it also has stay selected. */
export function showTrace(store, trace) {
  const kept = store.state.heads.filter(({ name, head }) => trace.attention(name) !== undefined && head < trace.nHeads(name));
  store.set({ ...start(trace), heads: kept.length > 0 ? kept : initialHeads(trace) });
}

function start(trace) {
  return { trace, step: 0, hovered: null, pinned: null, hoveredKey: null, playing: false };
}

/** The first head of the last cross-attention layer, or of the last layer if there is none; no head of a model without attention. */
function initialHeads({ attentions }) {
  const crossing = attentions.filter(({ kind }) => kind.endsWith("cross_attention"));
  return (crossing.length > 0 ? crossing : attentions).slice(-1).map(({ name }) => ({ name, head: 0 }));
}

/** Return {weights, row, column}: the weights of the selected heads and the highlighted row or column; the other is null. */
export function selectionOf(trace, state) {
  const { heads, unit, hovered, pinned, step } = state;
  if (heads.length === 0) return { weights: null, row: null, column: null, rowSequence: null, columnSequence: null, step };
  const [rowSequence, columnSequence] = trace.axes(heads[0].name);
  const weights = trace.once(`mean ${unit} ${JSON.stringify(heads)}`, () => trace.mean(heads, unit));
  const token = hovered ?? pinned;
  const within = (sequence) => {
    const index = trace.indexIn(sequence, token);
    return index === null ? null : trace.unitOf(sequence, index, unit);
  };
  const row = token === null ? rowOfStep(trace, state, rowSequence) : within(rowSequence);
  const column = token !== null && row === null ? within(columnSequence) : null;
  return { weights, row, column, rowSequence, columnSequence, step };
}

/** Return the attention weight of each unit of a sequence in the highlighted row or column; null if there is none. */
export function shares(selection, sequence) {
  const { weights, row, column, rowSequence, columnSequence } = selection;
  if (row !== null && sequence === columnSequence) {
    return weights.data.subarray(row * weights.columns, (row + 1) * weights.columns);
  }
  if (column !== null && sequence === rowSequence) {
    return Float32Array.from({ length: weights.rows }, (_, r) => weights.data[r * weights.columns + column]);
  }
  return null;
}

/** Return the weights of the selected heads with the texts of their rows and columns, for the JSON file. */
export function selectedWeights(trace, state) {
  const { weights, rowSequence, columnSequence } = selectionOf(trace, state);
  const texts = (sequence) => trace.units(sequence, state.unit).map(({ text }) => text);
  const rows = Array.from({ length: weights.rows }, (_, r) => Array.from(weights.data.subarray(r * weights.columns, (r + 1) * weights.columns), exact));
  return { heads: state.heads.map((head) => trace.title(head)), unit: state.unit, rows: texts(rowSequence), columns: texts(columnSequence), weights: rows };
}

/** Return the name of a file that shows the selected heads: head-2.1, by layer and head; of several, the name of the view. */
export function nameHeads(trace, { heads }, otherwise) {
  if (heads.length !== 1) return otherwise;
  const { kind, layer } = trace.attention(heads[0].name);
  return `${kind}-head-${layer}.${trace.headNumber(heads[0].head)}`;
}

function rowOfStep(trace, { heads, unit, step }, rowSequence) {
  const row = trace.rowOfStep(heads[0].name, step);
  return row === null ? null : trace.unitOf(rowSequence, row, unit);
}

/** Return the state in the parameters of a URL; entries that do not fit this trace are ignored. */
export function stateFromUrl(params, trace) {
  const state = {};
  const heads = parseHeads(params.get("heads")).filter((head) => exists(trace, head));
  const kinds = new Set(heads.map(({ name }) => trace.attention(name).kind));
  if (kinds.size === 1) state.heads = heads;
  const step = Number(params.get("step")) - 1;
  if (Number.isInteger(step) && step >= 0 && step < trace.steps.length) state.step = step;
  if (["token", "word"].includes(params.get("unit"))) state.unit = params.get("unit");
  if (["lines", "matrix"].includes(params.get("picture"))) state.picture = params.get("picture");
  return state;
}

/** Return the parameters of a URL that `stateFromUrl` reads. */
export function urlOf({ heads, step, unit, picture }) {
  return { heads: formatHeads(heads) || null, step: step + 1, unit, picture };
}

/** Call `write(state)` some time after changes of the named entries, until the scope ends. */
export function syncUrl(scope, names, write) {
  let timer = null;
  scope.watch(names, () => {
    clearTimeout(timer);
    timer = setTimeout(() => write(scope.state), URL_MS);
  });
  scope.onEnd(() => clearTimeout(timer));
}

/** Parse heads: `decoder.1.cross_attention.0,…`. */
export function parseHeads(text) {
  return (text ?? "").split(",").filter(Boolean).map((one) => {
    const cut = one.lastIndexOf(".");
    return { name: one.slice(0, cut), head: Number(one.slice(cut + 1)) };
  });
}

/** Return heads as text, as `parseHeads` reads them. */
export function formatHeads(heads) {
  return heads.map(({ name, head }) => `${name}.${head}`).join(",");
}

function exists(trace, { name, head }) {
  return trace.attention(name) !== undefined && Number.isInteger(head) && head >= 0 && head < trace.nHeads(name);
}
