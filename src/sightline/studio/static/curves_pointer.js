// Pointer and keyboard interaction with curves: crosshair, zoom by dragging, arrow keys.

import { nearest } from "./curves_data.js";
import { LEFT, RIGHT } from "./curves_drawing.js";

const MIN_DRAG = 6;

/** Update the store's crosshair (`at`) and zoom (`range`) from pointer and keys. */
export function follow(chart) {
  const { frame, store } = chart;
  let begun = null;
  const across = ({ clientX }) => Math.max(LEFT, Math.min(chart.width - RIGHT, clientX - frame.getBoundingClientRect().left));
  const end = () => ([begun, chart.dragged] = [null, null]);
  frame.addEventListener("pointerdown", (event) => {
    if (!chart.x || event.button !== 0) return;
    begun = across(event);
    frame.setPointerCapture(event.pointerId);
  });
  frame.addEventListener("pointermove", (event) => {
    if (!chart.x) return;
    if (begun !== null) chart.dragged = [begun, across(event)].sort((a, b) => a - b);
    store.set({ at: chart.x.fromPixel(across(event)) });
  });
  frame.addEventListener("pointerup", () => {
    const ends = chart.dragged;
    end();
    if (ends && chart.x) store.set(ends[1] - ends[0] > MIN_DRAG ? { range: ends.map(chart.x.fromPixel) } : { at: null });
  });
  frame.addEventListener("pointercancel", end);
  frame.addEventListener("pointerleave", () => begun === null && store.set({ at: null }));
  frame.addEventListener("dblclick", () => store.set({ range: null }));
  frame.addEventListener("keydown", (event) => keys(chart, event));
  frame.addEventListener("focus", () => (chart.legend.ariaLive = "polite")); // else every update during training would be read out
  frame.addEventListener("blur", () => (chart.legend.ariaLive = "off"));
}

function keys({ store, lines, x }, event) {
  const { at, range } = store.state;
  if (event.key === "Escape") store.set(at !== null ? { at: null } : { range: null });
  else if (!x || event.ctrlKey || event.metaKey || event.altKey) return;
  else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    const { points } = lines[0];
    const by = (event.key === "ArrowLeft" ? -1 : 1) * (event.shiftKey ? 10 : 1);
    const index = at === null ? points.length - 1 : nearest(points, at) + by;
    store.set({ at: points.x[Math.max(0, Math.min(points.length - 1, index))] });
  } else if (event.key === "+" || event.key === "-") {
    const [low, high] = x.domain;
    const [middle, by] = [at ?? (low + high) / 2, event.key === "+" ? 0.5 : 2];
    store.set({ range: event.key === "-" && range === null ? null : [Math.max(0, middle - (middle - low) * by), middle + (high - middle) * by] });
  } else return;
  event.preventDefault();
}
