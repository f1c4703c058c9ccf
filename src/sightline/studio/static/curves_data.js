// From records to curves: what stands on both axes, how it is smoothed, where the ticks are. Knows no page.

/** The axes that runs can be laid along, each with the entry of a record and what it is called. */
export const AXES = { step: "steps", tokens: "tokens", seconds: "time" };

const NOT_MEASURED = new Set(["step", "epoch", "tokens", "seconds", "best_step", "skipped"]);
const FIRST = ["loss", "bleu", "accuracy", "f1", "exact_match", "perplexity", "validation_loss"];

/** Return the names of what was measured in any of some runs, the loss and the usual score of a task first. */
export function measured(runs) {
  const names = new Set();
  for (const { records } of runs) for (const record of records) for (const name in record) if (typeof record[name] === "number") names.add(name);
  const rank = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
  return [...names].filter((name) => !NOT_MEASURED.has(name)).sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

const found = new WeakMap();

/** The records that have an entry, looked for once: there may be a hundred thousand. */
export function having(records, name) {
  if (!found.has(records)) found.set(records, new Map());
  const names = found.get(records);
  if (!names.has(name)) names.set(name, records.filter((record) => typeof record[name] === "number"));
  return names.get(name);
}

/** Return the curve of one entry: [{x, y, raw, step}], y being raw or smoothed over the records before. */
export function curve(records, name, axis, smoothing = 0) {
  const place = placing(records, axis);
  const points = [];
  let [sum, weight] = [0, 0];
  for (const record of having(records, name)) {
    const raw = record[name];
    sum = smoothing * sum + (1 - smoothing) * raw;
    weight = smoothing * weight + (1 - smoothing);
    points.push({ x: place(record), y: sum / weight, raw, step: record.step });
  }
  return points;
}

/** Where a record stands: a validation counts no tokens and no time, it lies between its neighbours as its step does. */
function placing(records, axis) {
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

/** Return a function from values to places, linear or logarithmic, and its inverse; a range of nothing is widened. */
export function scale([low, high], [start, end], logarithmic) {
  const [to, from] = logarithmic ? [Math.log10, (v) => 10 ** v] : [(v) => v, (v) => v];
  let [a, b] = [to(low), to(high)];
  if (b - a < 1e-12) [a, b] = [a - 0.5, b + 0.5];
  const place = (value) => start + ((to(value) - a) / (b - a)) * (end - start);
  return { place, value: (at) => from(a + ((at - start) / (end - start)) * (b - a)), domain: [from(a), from(b)] };
}

/** Return round numbers within a range, some `count` of them. */
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

/** Return the points of a curve that a picture can show: of each column of pixels the lowest and the highest. */
export function thinned(points, width) {
  if (points.length <= 2 * width) return points;
  const columns = new Map();
  for (const point of points) {
    const column = Math.floor(point[0]);
    const seen = columns.get(column);
    if (seen === undefined) columns.set(column, [point, point]);
    else if (point[1] < seen[0][1]) seen[0] = point;
    else if (point[1] > seen[1][1]) seen[1] = point;
  }
  return [...columns.values()].flatMap(([low, high]) => (low === high ? [low] : low[0] < high[0] ? [low, high] : [high, low]));
}

/** Return the place of the point nearest to an x, in points whose x grow. */
export function nearest(points, x) {
  let [low, high] = [0, points.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle].x < x) low = middle;
    else high = middle;
  }
  return high < 0 ? -1 : Math.abs(points[low].x - x) <= Math.abs(points[high].x - x) ? low : high;
}
