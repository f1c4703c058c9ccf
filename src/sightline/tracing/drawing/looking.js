// What one looks at when a trace is opened, and when another takes its place.

import { Store } from "./store.js";
import { palette } from "./theme.js";

/** Return a store for a trace; `wishes` are entries that shall be otherwise. */
export function lookAt(trace, wishes = {}) {
  const heads = [openingHead(trace)];
  return new Store({ ...start(trace), heads, unit: "token", picture: "lines", palette: palette(), ...wishes });
}

/** Show another trace in the same views: the heads stay those that were chosen, where it has them. */
export function show(store, trace) {
  const kept = store.state.heads.filter(({ name, head }) => trace.attention(name) !== undefined && head < trace.nHeads(name));
  store.set({ ...start(trace), heads: kept.length > 0 ? kept : [openingHead(trace)] });
}

function start(trace) {
  return { trace, step: 0, pointed: null, pinned: null, met: null, playing: false };
}

/** The first head of the last layer that links what is written to what was read. */
function openingHead({ attentions }) {
  const crossing = attentions.filter(({ kind }) => kind.endsWith("cross_attention"));
  return { name: (crossing.length > 0 ? crossing : attentions).at(-1).name, head: 0 };
}
