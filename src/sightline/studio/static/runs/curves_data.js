// From records to curves: axes, smoothing, scales and ticks. Independent of the DOM.

/** The choices for the x axis: the entry of a record and its label. */
export const AXES = { step: "steps", tokens: "tokens", seconds: "time" };

const NOT_MEASURED = new Set(["step", "epoch", "tokens", "seconds", "best_step", "skipped"]);
const FIRST = ["loss", "bleu", "accuracy", "f1", "exact_match", "perplexity", "validation_loss"];

/** Return the names of all metrics of some runs, the loss and the usual scores first. */
export function metricNames(runs) {
  const names = new Set();
  for (const { records } of runs) for (const record of records) for (const name in record) if (typeof record[name] === "number") names.add(name);
  const rank = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
  return [...names].filter((name) => !NOT_MEASURED.has(name)).sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

const found = new WeakMap();

/** The records that have an entry, cached: there may be a hundred thousand. */
export function having(records, name) {
  if (!found.has(records)) found.set(records, new Map());
  const names = found.get(records);
  if (!names.has(name)) names.set(name, records.filter((record) => typeof record[name] === "number"));
  return names.get(name);
}

const measuredAlong = new WeakMap();

/** Map items to a Float64Array; Float64Array.from takes five times as long. */
function column(some, number) {
  const numbers = new Float64Array(some.length);
  for (let at = 0; at < numbers.length; at++) numbers[at] = number(some[at]);
  return numbers;
}

/** The columns of one entry along an axis, cached. */
function columns(records, name, axis) {
  if (!measuredAlong.has(records)) measuredAlong.set(records, new Map());
  const known = measuredAlong.get(records);
  const key = `${name} ${axis}`;
  if (!known.has(key)) {
    const some = having(records, name);
    const position = positionsAlong(records, axis);
    known.set(key, { x: column(some, position), raw: column(some, (record) => record[name]), step: column(some, ({ step }) => step) });
  }
  return known.get(key);
}

/** Return the curve of one entry as columns {x, y, raw, step, length}; y is raw, or an exponential moving average of it. */
export function curve(records, name, axis, smoothing = 0) {
  const { x, raw, step } = columns(records, name, axis);
  if (smoothing === 0) return { x, y: raw, raw, step, length: x.length };
  const y = new Float64Array(x.length);
  let [sum, weight] = [0, 0];
  for (let at = 0; at < y.length; at++) {
    sum = smoothing * sum + (1 - smoothing) * raw[at];
    weight = smoothing * weight + (1 - smoothing);
    y[at] = sum / weight;
  }
  return { x, y, raw, step, length: x.length };
}

/** Return the points of a curve that satisfy a predicate of x and y. */
export function only(points, fits) {
  let first = 0;
  while (first < points.length && fits(points.x[first], points.y[first])) first++;
  if (first === points.length) return points;
  const kept = [];
  for (let at = 0; at < points.length; at++) if (at < first || fits(points.x[at], points.y[at])) kept.push(at);
  const picked = (all) => column(kept, (at) => all[at]);
  return { x: picked(points.x), y: picked(points.y), raw: picked(points.raw), step: picked(points.step), length: kept.length };
}

/** Return the index range of the points from low to high. */
export function within({ x }, low, high) {
  return [firstNotBelow(x, low), firstAbove(x, high)];
}

const firstNotBelow = (all, value) => bisect(all, (one) => one < value);
const firstAbove = (all, value) => bisect(all, (one) => one <= value);

function bisect(all, isBefore) {
  let [low, high] = [0, all.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(all[middle])) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Return all distinct steps of some curves in a range, sorted. */
export function stepsOf(curves, low, high) {
  const parts = curves.map((points) => points.step.subarray(...within(points, low, high)));
  const all = new Float64Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all.sort().filter((step, index, sorted) => index === 0 || step !== sorted[index - 1]);
}

/** Return the last value up to a step, or undefined. */
export function lastUpTo({ step, y }, wanted) {
  return y[firstAbove(step, wanted) - 1];
}

/** The x of a record: validation records have no tokens or seconds, so these are interpolated by step. */
function positionsAlong(records, axis) {
  if (axis === "step") return ({ step }) => step;
  const known = [{ step: 0, [axis]: 0 }, ...having(records, axis)];
  let at = 0;
  return (record) => {
    if (typeof record[axis] === "number") return record[axis];
    while (at > 0 && known[at].step > record.step) at--;
    while (at + 2 < known.length && known[at + 1].step < record.step) at++;
    const [before, after] = [known[at], known[at + 1] ?? known[at]];
    const share = after.step > before.step ? Math.min(1, (record.step - before.step) / (after.step - before.step)) : 0;
    return before[axis] + share * (after[axis] - before[axis]);
  };
}

/** Return a linear or logarithmic scale from values to pixels, with its inverse; an empty domain is widened. */
export function scale([low, high], [start, end], logarithmic) {
  const [to, from] = logarithmic ? [Math.log10, (v) => 10 ** v] : [(v) => v, (v) => v];
  let [a, b] = [to(low), to(high)];
  if (b - a < 1e-12) [a, b] = [a - 0.5, b + 0.5];
  const toPixel = (value) => start + ((to(value) - a) / (b - a)) * (end - start);
  return { toPixel, fromPixel: (at) => from(a + ((at - start) / (end - start)) * (b - a)), domain: [from(a), from(b)] };
}

/** Return about `count` round numbers within a range. */
export function ticks([low, high], logarithmic, count) {
  if (logarithmic && Math.log10(high / low) > 1) {
    const decades = Math.log10(high / low);
    const digits = decades > count ? [1] : decades > 2 ? [1, 3] : [1, 2, 5];
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) found.push(...digits.map((digit) => digit * 10 ** power));
    const inside = found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
    return inside.filter((_, n) => n % Math.ceil(inside.length / (2 * count)) === 0);
  }
  const rough = (high - low) / count;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * size).find((one) => one >= rough);
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-6; value += step) found.push(Number(value.toPrecision(12)));
  return found;
}

/**
 * Return [[across, down]] of the points from `from` to `to` to draw: all if there are few, else the lowest and the
 * highest of each column of pixels. Values without a logarithm are left out.
 */
export function toPixels(xs, ys, [from, to], x, y, width) {
  const found = [];
  const few = to - from <= 2 * width;
  let [edge, low, high] = [null, from, from]; // where the column ends: one logarithm per column, not per point
  const flush = () => {
    if (edge === null) return;
    for (const at of low === high ? [low] : [Math.min(low, high), Math.max(low, high)]) found.push([x.toPixel(xs[at]), y.toPixel(ys[at])]);
  };
  for (let at = from; at < to; at++) {
    if (ys[at] <= 0 && y.domain[0] > 0) continue;
    if (few || edge === null || xs[at] >= edge) {
      flush();
      [edge, low, high] = [x.fromPixel(Math.floor(x.toPixel(xs[at])) + 1), at, at];
    } else if (ys[at] < ys[low]) low = at;
    else if (ys[at] > ys[high]) high = at;
  }
  flush();
  return found;
}

/** Return the index of the point nearest to an x; x is sorted. */
export function nearest({ x: xs, length }, x) {
  const high = Math.min(firstNotBelow(xs, x), length - 1);
  const low = Math.max(0, high - 1);
  return high < 0 ? -1 : Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
}
