// Drawing of curves: axes, lines, dots, titles.

import { svg } from "/drawing/dom.js";
import { toPixels, ticks, within } from "./curves_data.js";

export const [LEFT, RIGHT, TOP, BOTTOM] = [52, 22, 26, 40];
const NAMES = { bleu: "BLEU", chrf: "chrF", f1: "F1" };
const UNITS = { step: [[1, "steps"]], tokens: [[1, "tokens"]], seconds: [[3600, "hours"], [60, "minutes"], [1, "seconds"]] };

/** The title of a metric. */
export function titleOf(name) {
  return NAMES[name] ?? name.replaceAll("_", " ").replace(/^./, (letter) => letter.toUpperCase());
}

/** A sample of a run's line, for legends. */
export function swatch({ mark }) {
  return svg("svg", { width: 34, height: 12, "aria-hidden": "true" }, svg("g", { class: `curve ${mark}` }, svg("path", { d: "M1 6H33", "stroke-width": 2.5 })));
}

/** The grid lines, tick labels and axis titles. */
export function grid({ x, y, width, height, name }, axis, logX, logY) {
  const [per, unit] = UNITS[axis].find(([size]) => x.domain[1] >= 2 * size) ?? UNITS[axis].at(-1);
  const across = ticks(x.domain.map((value) => value / per), logX, width < 420 ? 4 : 6);
  const up = ticks(y.domain, logY, 5);
  const foot = height - BOTTOM;
  return [
    ...up.map((value) => svg("path", { class: "rule", d: `M${LEFT} ${y.toPixel(value).toFixed(1)}H${width - RIGHT}` })),
    ...up.map((value) => svg("text", { class: "up", x: LEFT - 6, y: y.toPixel(value).toFixed(1) }, label(value))),
    ...across.map((value) => svg("text", { class: "across", x: x.toPixel(value * per).toFixed(1), y: foot + 14 }, label(value))),
    svg("path", { class: "rule foot", d: `M${LEFT} ${foot}H${width - RIGHT}` }),
    svg("text", { class: "across", x: (LEFT + width - RIGHT) / 2, y: height - 8 }, `${unit}${logX ? " (log)" : ""}`),
    svg("text", { class: "title", x: 0, y: 12 }, `${titleOf(name)}${logY ? " (log)" : ""}`),
  ];
}

/** A tick label. */
function label(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(4))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(4))}k`;
  return size > 0 && size < 1e-3 ? value.toExponential(0).replace("-", "−") : String(Number(value.toPrecision(4))).replace("-", "−");
}

/** A curve, with the raw values faint behind a smoothed one; validation metrics have dots. */
export function strokes({ x, y, width }, { run, dotted, points }, smoothing) {
  const [low, high] = x.domain;
  const inside = within(points, low, high);
  const at = (values) => toPixels(points.x, values, inside, x, y, width);
  const path = (values) => at(values).map(([across, down], n) => `${n === 0 ? "M" : "L"}${across.toFixed(1)} ${down.toFixed(1)}`).join("");
  const dots = dotted && inside[1] - inside[0] <= 200 ? at(points.y).map(([across, down]) => dot(across, down, 2.5)) : [];
  const faint = smoothing > 0 && !dotted ? [svg("path", { class: "faint", d: path(points.raw) })] : [];
  return [svg("g", { class: `curve ${run.mark}` }, ...faint, svg("path", { d: path(points.y), "stroke-width": dotted ? 1.5 : 2 }), ...dots)];
}

/** A dot, as a rounded rectangle, which exported pictures keep. */
export function dot(across, down, radius) {
  return svg("rect", { x: (across - radius).toFixed(1), y: (down - radius).toFixed(1), width: 2 * radius, height: 2 * radius, rx: radius });
}
