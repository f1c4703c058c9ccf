// The keyboard shortcuts of Watch; keys typed into a field are left alone.

import { go, play } from "/drawing/decoding_steps.js";
import { toggleAblated } from "./watch_ablation.js";

/** Handle a key press. */
export function keys(event, store, { ablate }) {
  const { target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (target instanceof Element && target.closest("input:not([type=checkbox]), select, textarea, dialog") !== null) return;
  const pressed = target instanceof Element && target.closest("summary, button, a, [role=button], [type=checkbox]") !== null;
  const { trace, unit } = store.state;
  const acts = {
    l: () => store.set({ picture: "lines" }),
    m: () => store.set({ picture: "matrix" }),
    w: () => store.set({ unit: unit === "word" ? "token" : "word" }),
    k: () => ablate(toggleAblated(store.state)),
    Escape: () => back(store),
    ...(trace.steps.length > 0 ? { ArrowLeft: () => step(store, -1), ArrowRight: () => step(store, 1), ...(pressed ? {} : { " ": () => play(trace, store) }) } : {}),
  };
  const act = acts[event.key];
  if (act === undefined) return;
  event.preventDefault();
  act();
}

function step(store, by) {
  store.set({ playing: false });
  go(store.state.trace, store, by);
}

/** Go back one level: unpin the token, then drop added heads, then focus the grid of heads. */
function back(store) {
  const { pinned, heads, playing } = store.state;
  if (playing) store.set({ playing: false });
  else if (pinned !== null) store.set({ pinned: null });
  else if (heads.length > 1) store.set({ heads: [heads[0]] });
  else document.querySelector(".tile[aria-pressed=true]")?.focus();
}
