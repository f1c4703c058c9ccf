// What the address remembers of the curves: along what, how smooth, which part, and which measures.

import { AXES } from "./curves_data.js";

const SMOOTHEST = 0.98;

/** Return the entries of the store that the address has a wish for, and the usual ones. */
export function remembered(place) {
  const ends = (place.get("zoom") ?? "").split("-").map(Number);
  return {
    axis: place.get("x") in AXES ? place.get("x") : "step",
    smoothing: Math.max(0, Math.min(SMOOTHEST, Number(place.get("smooth")) || 0)),
    logX: place.get("logx") !== null,
    logY: place.get("logy") !== null,
    range: ends.length === 2 && ends[0] < ends[1] ? ends : null,
    firstWish: place.get("first"),
    secondWish: place.get("second"),
  };
}

/** Keep the address as the store is; what is as usual is not mentioned. */
export function rememberIn(place, store) {
  store.watch(["axis", "smoothing", "logX", "logY", "range", "firstWish", "secondWish"], ({ axis, smoothing, logX, logY, range, firstWish, secondWish }) =>
    place.set({
      x: axis === "step" ? null : axis,
      smooth: smoothing || null,
      logx: logX ? 1 : null,
      logy: logY ? 1 : null,
      zoom: range?.map((value) => Number(value.toPrecision(6))).join("-"),
      first: firstWish,
      second: secondWish,
    }));
}
