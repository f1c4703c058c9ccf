// The keyboard of Watch. What is typed into a field belongs to the field.

import { go, play } from "/drawing/film.js";
import { toggled } from "./watch_knock.js";

/** Act on a key. */
export function keys(event, store, { knock }) {
  const { target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (target instanceof Element && target.closest("input:not([type=checkbox]), select, textarea, dialog") !== null) return;
  const pressed = target instanceof Element && target.closest("summary, button, a, [role=button], [type=checkbox]") !== null;
  const { trace, unit } = store.state;
  const acts = {
    l: () => store.set({ picture: "lines" }),
    m: () => store.set({ picture: "matrix" }),
    w: () => store.set({ unit: unit === "word" ? "token" : "word" }),
    k: () => knock(toggled(store.state)),
    Escape: () => back(store),
    ...(trace.steps.length > 0 ? { ArrowLeft: () => walk(store, -1), ArrowRight: () => walk(store, 1), ...(pressed ? {} : { " ": () => play(trace, store) }) } : {}),
  };
  const act = acts[event.key];
  if (act === undefined) return;
  event.preventDefault();
  act();
}

function walk(store, by) {
  store.set({ playing: false });
  go(store.state.trace, store, by);
}

/** One level up: let go of the token, then of the heads that were added, then back to all heads. */
function back(store) {
  const { pinned, heads, playing } = store.state;
  if (playing) store.set({ playing: false });
  else if (pinned !== null) store.set({ pinned: null });
  else if (heads.length > 1) store.set({ heads: [heads[0]] });
  else document.querySelector(".tile[aria-pressed=true]")?.focus();
}
