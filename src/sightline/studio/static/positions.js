// Positions: what tells a model where a word stands: the codes, single depths of them as curves, and how alike they are.

import { button, element, fill, section, svg } from "/drawing/dom.js";
import { exact, short } from "/drawing/numbers.js";
import { unpack } from "/drawing/packed.js";
import { saving } from "/drawing/saving.js";
import { Scope } from "/drawing/scope.js";
import { Store } from "/drawing/store.js";
import { chart } from "./positions_curves.js";
import { grid } from "./positions_grid.js";
import { positionsTable } from "./positions_table.js";
import { styled, trying } from "./write_parts.js";

const MOST = 512;
const USUAL = 64;
const MOST_CURVES = 6;
const MOST_WAVES = 20; // across a chart; those that are faster are drawn fainter
const TOLD = {
  sinusoidal: "Each row is the code of one position: waves that are fast at the left and ever slower to the right, a sine and a cosine in turn. It is added to the vector of the word that stands there; nothing of it was learned.",
  sinusoidal_halves: "Each row is the code of one position: sines in the left half and cosines in the right, each from fast to slow. It is added to the vector of the word that stands there; nothing of it was learned.",
  learned: "Each row is the code of one position. The model learned these numbers, as it did those of its words; the row is added to the vector of the word that stands there.",
  rotary: "Nothing is added to a word here: in every head, pairs of numbers of its query and its key are turned, like the hands of clocks, by angles that grow with the position. Shown are the sines and cosines of these angles, fast clocks at the left.",
};

/** Draw the view into an element; return a function that removes it. */
export function mount(host, { model, ask, place, themed }) {
  styled("positions");
  const { problem, attempt } = trying();
  const scope = new Scope(new Store({ palette: null }));
  const body = element("div", {}, element("p", { class: "waiting" }, "…"));
  const stopped = new AbortController();
  fill(host, problem, body);
  scope.onEnd(themed(scope.store));
  attempt(async () => {
    const told = await ask("/studio-api/positions", { model: model.id, n: MOST }, { signal: stopped.signal });
    if (!stopped.signal.aborted) fill(body, ...drawn(read(told), scope, place));
  }).then(() => problem.textContent !== "" && fill(body));
  return () => {
    stopped.abort();
    scope.end();
    fill(host);
  };
}

/** What was told, with a function for every number of it. */
function read({ codes, similarities, ...told }) {
  const [{ shape: [most, width], data }, { data: cosines }] = [unpack(codes), unpack(similarities)];
  const all = (n, m, number) => Array.from({ length: n }, (_, row) => Array.from({ length: m }, (_, column) => exact(number(row, column))));
  const found = { ...told, most, width, code: (row, depth) => data[row * width + depth], cosine: (one, other) => cosines[one * most + other] };
  return {
    ...found,
    reach: (n) => data.subarray(0, n * width).reduce((far, number) => Math.max(far, Math.abs(number)), 0) || 1,
    columnOf: (depth, n) => Array.from({ length: n }, (_, row) => found.code(row, depth)),
    rowOf: (row, n) => cosines.subarray(row * most, row * most + n),
    codes: (n) => all(n, width, found.code),
    cosines: (n) => all(n, n, found.cosine),
  };
}

function drawn(found, scope, place) {
  const { most, width } = found;
  const whole = (name, usual, low, high) => Math.max(low, Math.min(high, Math.round(Number(place.get(name) ?? usual)) || low));
  const n = whole("n", Math.min(USUAL, most), 1, most);
  const depths = (place.get("depths") ?? opening(width).join(",")).split(",").filter((text) => /^\d+$/.test(text)).map(Number);
  scope.set({ n, row: whole("row", Math.floor(n / 2), 0, n - 1), depths: depths.filter((depth) => depth < width).slice(0, MOST_CURVES), pointed: null });
  scope.watch(["n", "row", "depths"], (state) => place.set({ n: state.n, row: state.row, depths: state.depths.join(",") }));
  const said = element("output", { class: "number" });
  const [counter, slider] = knob("Positions shown", "how-many", (count) => scope.set({ n: count, row: Math.min(scope.state.row, count - 1), pointed: null }), said);
  [slider.min, slider.max] = [Math.min(2, most), most];
  scope.watch(["n"], (state) => (slider.value = said.textContent = state.n));
  const parts = [codesPart, curvesPart, alikePart, rowPart].map((part) => part(found, scope));
  return [element("section", { class: "counter" }, counter), element("div", { class: "positions" }, ...parts), element("section", {}, positionsTable(found, scope))];
}

/** A fast wave, a slow one, and two between. */
function opening(width) {
  return [...new Set([0, 0.14, 0.28, 0.5].map((share) => Math.min(width - 1, Math.floor(width * share)) & ~1))];
}

function codesPart(found, scope) {
  const { width } = found;
  const [low, high, readout] = [element("span"), element("span"), element("output", { class: "readout" })];
  const picture = grid({ label: "Codes of positions", across: "depth →", down: "↓ position", point: (cell) => point(scope, cell), pick: ({ column }) => toggle(scope, column) });
  scope.watch(["n", "palette"], ({ n, palette }) => {
    const reach = found.reach(n);
    picture.draw({ rows: n, columns: width, number: found.code, reach, palette });
    [low.textContent, high.textContent] = [short(-reach), short(reach)];
  });
  scope.watch(["n", "pointed", "depths"], ({ pointed, depths }) => {
    picture.mark([...depths.map((column) => ({ column, kind: "tab" })), ...here(pointed)]);
    if (pointed?.column === undefined) fill(readout, hint("Point at a cell to read its number; click a column to draw it as a curve."));
    else fill(readout, `Position ${pointed.row}, ${named(found, pointed.column)}: `, value(found.code(pointed.row, pointed.column)));
  });
  const scale = element("p", { class: "legend" }, element("span", { class: "scale" }, low, element("span", { class: "ramp signed" }), high));
  return part("codes", "Position × depth", TOLD[found.kind], [scale, picture.node, readout], () => found.codes(scope.state.n));
}

function curvesPart(found, scope) {
  const { width, wavelengths } = found;
  const picture = chart({ label: "Curves of the chosen depths", point: (row) => point(scope, row === null ? null : { row }) });
  const legend = element("ul", { class: "curve-legend" });
  const more = button("Add a depth", () => toggle(scope, free(scope.state.depths, Number(slider.value), width)));
  const [chooser, slider] = knob("Last depth", "which-depth", (depth) => {
    const { depths } = scope.state;
    if (!depths.includes(depth)) scope.set({ depths: [...depths.slice(0, -1), depth] });
  }, more);
  slider.max = width - 1;
  scope.measure(picture.node, picture.measured);
  scope.watch(["n", "depths", "pointed"], ({ n, depths, pointed }) => {
    const curves = depths.map((depth, k) => ({ kind: wavelengths?.[depth] < n / MOST_WAVES ? `c${k} fast` : `c${k}`, data: found.columnOf(depth, n) }));
    picture.draw({ curves, count: n, reach: found.reach(n), at: pointed?.row ?? null });
    more.disabled = depths.length >= Math.min(MOST_CURVES, width);
    slider.disabled = depths.length === 0;
    if (depths.length > 0) slider.value = depths.at(-1);
    fill(legend, ...depths.map((depth, k) => element("li", {}, svg("svg", { width: 28, height: 10, "aria-hidden": "true" }, svg("path", { d: "M1 5H27", class: `c${k}` })), named(found, depth),
      pointed === null ? null : value(curves[k].data[pointed.row]),
      button("×", () => toggle(scope, depth), { class: "link", "aria-label": `Remove depth ${depth}` }))));
  });
  const about = `One column of the matrix, read downwards.${wavelengths === null ? "" : " Fast waves tell neighbours apart, slow ones the beginning from the end."}`;
  return part("curves", "Chosen depths", about, [chooser, picture.node, legend], () =>
    scope.state.depths.map((depth) => ({ depth, values: found.columnOf(depth, scope.state.n).map(exact) })));
}

function alikePart(found, scope) {
  const readout = element("output", { class: "readout" });
  const picture = grid({ label: "Similarity of positions", across: "position →", down: "↓ position", point: (cell) => point(scope, cell && { row: cell.row, other: cell.column }), pick: ({ row }) => scope.set({ row }) });
  scope.watch(["n", "palette"], ({ n, palette }) => picture.draw({ rows: n, columns: n, number: found.cosine, reach: 1, palette }));
  scope.watch(["n", "row", "pointed"], ({ row, pointed }) => {
    picture.mark([{ row, kind: "chosen" }, ...here(pointed)]);
    if (pointed?.other === undefined) fill(readout, hint("Point at two positions to read how alike they are; click a row to draw it as a curve."));
    else fill(readout, `Positions ${pointed.row} and ${pointed.other}: `, value(found.cosine(pointed.row, pointed.other)));
  });
  const about = "The cosine of the angle between two codes: 1 for the same, 0 for nothing in common, below 0 for opposite ones.";
  return part("alike", "How alike positions are", about, [picture.node, readout], () => found.cosines(scope.state.n));
}

function rowPart(found, scope) {
  const picture = chart({ label: "Similarity of one position with all", point: (row) => point(scope, row === null ? null : { row }) });
  const readout = element("output", { class: "readout" });
  const [chooser, slider] = knob("Position", "which-row", (row) => scope.set({ row }));
  scope.measure(picture.node, picture.measured);
  scope.watch(["n", "row", "pointed"], ({ n, row, pointed }) => {
    [slider.max, slider.value] = [n - 1, row];
    const at = pointed?.row ?? row;
    picture.draw({ curves: [{ data: found.rowOf(row, n), kind: "c0" }], count: n, reach: 1, at });
    fill(readout, `Position ${row} and ${at}: `, value(found.cosine(row, at)));
  });
  const about = found.wavelengths === null ? "what the model has learned of near and far." : "near positions are alike, and the same distance looks the same everywhere.";
  return part("row", "One position among all", `One row of the similarities: ${about}`, [chooser, picture.node, readout], () =>
    ({ position: scope.state.row, similarities: Array.from(found.rowOf(scope.state.row, scope.state.n), exact) }));
}

function part(id, title, about, children, data) {
  const node = section(id, title, about, ...children);
  node.append(saving(`positions-${id}`, node, data));
  return node;
}

/** A slider with its name before it and perhaps something behind it: [all of it, the slider]. */
function knob(title, id, act, behind = null) {
  const slider = element("input", { type: "range", id, min: 0, step: 1, on: { input: () => act(Number(slider.value)) } });
  return [element("div", { class: "knob" }, element("label", { for: id }, title), slider, behind), slider];
}

function hint(text) {
  return element("span", { class: "hint" }, text);
}

function value(number) {
  return element("b", { class: "number" }, short(number));
}

function here(pointed) {
  return pointed === null ? [] : [{ row: pointed.row, kind: "here" }];
}

function point(scope, cell) {
  const { pointed } = scope.state;
  if (cell?.row !== pointed?.row || cell?.column !== pointed?.column || cell?.other !== pointed?.other) scope.set({ pointed: cell });
}

function toggle(scope, depth) {
  const { depths } = scope.state;
  scope.set({ depths: depths.includes(depth) ? depths.filter((one) => one !== depth) : [...depths, depth].slice(-MOST_CURVES) });
}

/** A depth that is not drawn yet, beginning at one. */
function free(depths, start, width) {
  return Array.from({ length: width }, (_, by) => (start + by) % width).find((depth) => !depths.includes(depth));
}

function named({ kind, wavelengths, width }, depth) {
  if (wavelengths === null) return `depth ${depth}`;
  const sine = kind === "sinusoidal_halves" ? depth < width / 2 : depth % 2 === 0;
  return `depth ${depth} (${sine ? "sine" : "cosine"}, again after ${short(wavelengths[depth])} positions)`;
}
