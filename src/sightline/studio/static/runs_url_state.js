// The state of the curves in the URL: x axis, smoothing, log scales, zoom, metrics.

import { AXES } from "./curves_data.js";

const MAX_SMOOTHING = 0.98;

/** Return the state in the URL, with defaults. */
export function stateFromUrl(params) {
  const ends = (params.get("zoom") ?? "").split("-").map(Number);
  return {
    axis: params.get("x") in AXES ? params.get("x") : "step",
    smoothing: Math.max(0, Math.min(MAX_SMOOTHING, Number(params.get("smooth")) || 0)),
    logX: params.get("logx") !== null,
    logY: params.get("logy") !== null,
    range: ends.length === 2 && ends[0] < ends[1] ? ends : null,
    firstMetric: params.get("first"),
    secondMetric: params.get("second"),
  };
}

/** Keep the URL up to date; defaults are left out. */
export function syncUrl(params, store) {
  store.watch(["axis", "smoothing", "logX", "logY", "range", "firstMetric", "secondMetric"], ({ axis, smoothing, logX, logY, range, firstMetric, secondMetric }) =>
    params.set({
      x: axis === "step" ? null : axis,
      smooth: smoothing || null,
      logx: logX ? 1 : null,
      logy: logY ? 1 : null,
      zoom: range?.map((value) => Number(value.toPrecision(6))).join("-"),
      first: firstMetric,
      second: secondMetric,
    }));
}
