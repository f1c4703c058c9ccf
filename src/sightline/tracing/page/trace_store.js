// The initial state of the views for a trace, and how a trace is replaced by another.

import { Store } from "./store.js";
import { palette } from "./theme.js";

/** Create a store for a trace; `overrides` replace entries of the initial state. */
export function createStore(trace, overrides = {}) {
  const heads = [initialHead(trace)];
  return new Store({ ...start(trace), heads, unit: "token", picture: "lines", palette: palette(), ...overrides });
}

/** Show another trace in the same views; selected heads that it also has stay selected. */
export function showTrace(store, trace) {
  const kept = store.state.heads.filter(({ name, head }) => trace.attention(name) !== undefined && head < trace.nHeads(name));
  store.set({ ...start(trace), heads: kept.length > 0 ? kept : [initialHead(trace)] });
}

function start(trace) {
  return { trace, step: 0, hovered: null, pinned: null, hoveredKey: null, playing: false };
}

/** The first head of the last cross-attention layer, or of the last layer if there is none. */
function initialHead({ attentions }) {
  const crossing = attentions.filter(({ kind }) => kind.endsWith("cross_attention"));
  return { name: (crossing.length > 0 ? crossing : attentions).at(-1).name, head: 0 };
}
