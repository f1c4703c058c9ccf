// Training curves of several runs in one chart: a crosshair shared by all charts, zoom by dragging, a legend with values.

import { element, fill, svg } from "/page/dom.js";
import { saveButton } from "/page/export.js";
import { groupDigits, short } from "/page/text.js";
import { Scope } from "/page/view.js";
import { titleOf } from "../model_card.js";
import { AXES, curve, having, lastUpTo, nearest, only, scale, stepsOf, ticks, toPixels, within } from "./curves_data.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [52, 22, 26, 40];
const UNITS = { step: [[1, "steps"]], tokens: [[1, "tokens"]], seconds: [[3600, "hours"], [60, "minutes"], [1, "seconds"]] };
const ROWS = 25; // of the table
const MIN_DRAG = 6;

/**
 * Draw the curves of a metric into an element. The store has `drawn` (the runs, each with id, name, mark and records),
 * `axis`, `smoothing`, `logX`, `logY`, `range` and `at`; `entry` is the entry with the name of the metric.
 */
export function curves(host, store, entry) {
  const scope = new Scope(store);
  const frame = element("div", { class: "curves-frame", tabindex: 0, role: "img" });
  const legend = element("ul", { class: "curves-legend" });
  const table = element("div", { class: "scroller" });
  const folded = element("details", { class: "numbers" }, element("summary", {}, "Values as a table"), table);
  const kinds = element("p", { class: "note" });
  scope.watch(["drawn", entry], ({ drawn, [entry]: name }) => (kinds.textContent = name === "loss" ? describeLosses(drawn) : ""));
  const whole = element("div", { class: "curves" }, frame, kinds, legend);
  const chart = { store, frame, legend, width: 0, lines: [], dragged: null };
  const redraw = () => {
    if (chart.width === 0) return;
    draw(chart, store.state, store.state[entry]);
    clearTimeout(timer);
    timer = setTimeout(tabulate, 200); // so that moving a slider stays smooth
  };
  const tabulate = () => folded.open && chart.width > 0 && fill(table, tableOf(chart));
  let timer = null;
  scope.onEnd(() => clearTimeout(timer));
  scope.watch(["drawn", "axis", "smoothing", "logX", "logY", "range", entry], redraw);
  scope.watch(["at"], () => chart.width > 0 && point(chart, store.state));
  scope.measure(frame, (width) => {
    chart.width = width;
    redraw();
  });
  folded.addEventListener("toggle", tabulate);
  follow(chart);
  whole.append(saveButton("curves", whole, () => numbers(chart, store.state)));
  fill(host, whole, folded);
  return () => scope.end();
}

/** The lines of a chart: one per run; for the loss, also that of validation. */
function linesOf({ drawn, axis, smoothing, logX, logY }, name) {
  const fits = (x, y) => (!logX || x > 0) && (!logY || y > 0);
  return drawn.flatMap((run) => {
    const names = name === "loss" ? ["loss", "validation_loss"] : [name];
    return names.map((one) => {
      const trained = typeof having(run.records, one)[0]?.tokens === "number";
      return { run, name: one, dotted: !trained, points: only(curve(run.records, one, axis, trained ? smoothing : 0), fits) };
    });
  }).filter(({ points }) => points.length > 0);
}

/** What the two kinds of loss of one chart are, and why they cannot be compared. */
function describeLosses(runs) {
  const both = runs.filter(({ records }) => having(records, "loss").length > 0 && having(records, "validation_loss").length > 0);
  if (both.length === 0) return "";
  const amounts = [...new Set(both.map(({ label_smoothing: amount }) => amount))].filter((amount) => amount > 0);
  const why = amounts.length === 0
    ? "The first is measured with dropout while the model learns, the second without."
    : `The first has label smoothing (${amounts.join(", ")}) and dropout, which keep it up; the second has neither. So their heights cannot be compared.`;
  return `Lines: training loss. Lines with dots: validation loss. ${why}`;
}

/** The extents of all lines, smoothed or not, within the range of x if there is one. */
function extents(lines, range, logY) {
  const [across, up] = [[Infinity, -Infinity], [Infinity, -Infinity]];
  for (const { points } of lines) {
    const { x, y, raw } = points;
    const [from, to] = range === null ? [0, points.length] : within(points, ...range);
    for (let at = from; at < to; at++) {
      if (x[at] < across[0]) across[0] = x[at];
      if (x[at] > across[1]) across[1] = x[at];
      const least = logY && raw[at] <= 0 ? y[at] : Math.min(y[at], raw[at]);
      if (least < up[0]) up[0] = least;
      if (y[at] > up[1]) up[1] = y[at];
      if (raw[at] > up[1]) up[1] = raw[at];
    }
  }
  return [across, up];
}

function draw(chart, state, name) {
  const { axis, logX, logY, range, smoothing } = state;
  const lines = linesOf(state, name);
  Object.assign(chart, { lines, name });
  const [across, up] = extents(lines, range, logY);
  if (across[0] > across[1]) {
    chart.x = null;
    fill(chart.frame, element("p", { class: "waiting" }, lines.length === 0 ? "The selected runs have no values of this metric yet." : "No data in this range: press Escape to reset."));
    fill(chart.legend);
    return;
  }
  const height = chart.width < 420 ? 230 : 290;
  const [from, to] = range ?? [logX ? across[0] : Math.min(0, across[0]), across[1]];
  const x = scale([logX ? Math.max(from, across[0]) : from, to], [LEFT, chart.width - RIGHT], logX);
  const y = scale(up, [height - BOTTOM - 4, TOP + 4], logY);
  Object.assign(chart, { x, y, height });
  const picture = svg("svg", { width: chart.width, height, viewBox: `0 0 ${chart.width} ${height}` });
  picture.append(...grid(chart, axis, logX, logY));
  for (const line of lines) picture.append(...strokes(chart, line, smoothing));
  chart.cursor = svg("g", { class: "curves-cursor" });
  picture.append(chart.cursor);
  fill(chart.frame, picture);
  chart.frame.setAttribute("aria-label", `${titleOf(name)} of ${state.drawn.map((run) => run.name).join(", ")} against ${AXES[axis]}. Arrow keys move along the curves, plus and minus zoom, Escape resets.`);
  point(chart, state);
}

/** Draw the crosshair, and show its values in the legend (without it, the last values). */
function point({ cursor, legend, lines, x, y, height, dragged }, { at, drawn }) {
  if (!x) return;
  const there = at !== null && at >= x.domain[0] && at <= x.domain[1];
  const marks = lines.map(({ run, name, points }) => {
    const index = there ? nearest(points, at) : points.length - 1;
    return { run, name, point: { x: points.x[index], y: points.y[index], step: points.step[index] } };
  });
  const seen = marks.filter((one) => one.point.x >= x.domain[0] && one.point.x <= x.domain[1]);
  const swept = dragged && svg("rect", { class: "zoomed", x: dragged[0], y: TOP, width: dragged[1] - dragged[0], height: height - TOP - BOTTOM });
  fill(cursor, swept, ...(there ? [svg("path", { class: "hair", d: `M${x.toPixel(at).toFixed(1)} ${TOP}V${height - BOTTOM}` }),
    ...seen.map((one) => svg("g", { class: `curve ${one.run.mark}` }, dot(x.toPixel(one.point.x), y.toPixel(one.point.y), 4)))] : []));
  fill(legend, ...drawn.map((run) => {
    const own = marks.filter((one) => one.run === run);
    const values = own.map(({ name, point: { y: value, step } }) => [
      element("span", {}, own.length > 1 ? `${name === "validation_loss" ? "validation" : "training"} ` : ""), element("b", { class: "number" }, short(value)), ` at step ${groupDigits(step)}`]);
    return element("li", { "data-run": run.id }, swatch(run), element("span", { class: "name" }, run.name), element("span", { class: "values" }, ...values.flatMap((value, n) => (n === 0 ? value : [" · ", ...value])), values.length === 0 ? "–" : ""));
  }));
}

/** Some points of every curve as a table, for screen readers and for copying. */
function tableOf({ lines, x, name }) {
  if (!x) return element("p", {}, "No data.");
  const steps = stepsOf(lines.map(({ points }) => points), ...x.domain);
  const shown = [...steps.filter((_, n) => n % Math.ceil(steps.length / ROWS) === 0 || n === steps.length - 1)];
  const head = lines.map(({ run, name: one }) => element("th", { scope: "col" }, `${run.name}${one !== name ? ", validation" : lines.some((other) => other.run === run && other.name !== name) ? ", training" : ""}`));
  const rows = shown.map((step) => element("tr", {}, element("th", { scope: "row" }, groupDigits(step)), ...lines.map(({ points }) => element("td", {}, lastUpTo(points, step) === undefined ? "–" : short(lastUpTo(points, step))))));
  return element("table", {}, element("caption", {}, `${titleOf(name)}: the last value up to each step`), element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Step"), ...head)), element("tbody", {}, ...rows));
}

function numbers({ lines }, { axis, smoothing }) {
  return { axis, smoothing, curves: lines.map(({ run, name, points }) => ({ run: run.name, metric: name, points: Array.from(points.x, (x, at) => ({ step: points.step[at], [axis]: x, value: points.y[at] })) })) };
}

/** A sample of a run's line, for legends. */
export function swatch({ mark }) {
  return svg("svg", { width: 34, height: 12, "aria-hidden": "true" }, svg("g", { class: `curve ${mark}` }, svg("path", { d: "M1 6H33", "stroke-width": 2.5 })));
}

/** The grid lines, tick labels and axis titles. */
function grid({ x, y, width, height, name }, axis, logX, logY) {
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
function strokes({ x, y, width }, { run, dotted, points }, smoothing) {
  const [low, high] = x.domain;
  const inside = within(points, low, high);
  const at = (values) => toPixels(points.x, values, inside, x, y, width);
  const path = (values) => at(values).map(([across, down], n) => `${n === 0 ? "M" : "L"}${across.toFixed(1)} ${down.toFixed(1)}`).join("");
  const dots = dotted && inside[1] - inside[0] <= 200 ? at(points.y).map(([across, down]) => dot(across, down, 2.5)) : [];
  const faint = smoothing > 0 && !dotted ? [svg("path", { class: "faint", d: path(points.raw) })] : [];
  return [svg("g", { class: `curve ${run.mark}` }, ...faint, svg("path", { d: path(points.y), "stroke-width": dotted ? 1.5 : 2 }), ...dots)];
}

/** A dot, as a rounded rectangle, which exported pictures keep. */
function dot(across, down, radius) {
  return svg("rect", { x: (across - radius).toFixed(1), y: (down - radius).toFixed(1), width: 2 * radius, height: 2 * radius, rx: radius });
}

/** Update the store's crosshair (`at`) and zoom (`range`) from pointer and keys. */
function follow(chart) {
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
