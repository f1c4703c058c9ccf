// Positions: what tells a model where a word stands: the codes, single depths of them as curves, and how alike they are.

import { button, element, fill, section } from "/drawing/dom.js";
import { exact, short } from "/drawing/numbers.js";
import { unpack } from "/drawing/packed.js";
import { saving } from "/drawing/saving.js";
import { Scope } from "/drawing/scope.js";
import { Store } from "/drawing/store.js";
import { chart } from "./positions_curves.js";
import { grid } from "./positions_grid.js";
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
    const found = await ask("/studio-api/positions", { model: model.id, n: MOST }, { signal: stopped.signal });
    const [codes, alike] = [unpack(found.codes), unpack(found.similarities)];
    if (!stopped.signal.aborted) fill(body, ...drawn({ ...found, codes, alike }, scope, place));
  }).then(() => problem.textContent !== "" && fill(body));
  return () => {
    stopped.abort();
    scope.end();
    fill(host);
  };
}

function drawn(found, scope, place) {
  const [most, width] = found.codes.shape;
  const number = (name, usual, limit) => Math.max(0, Math.min(limit, Math.round(Number(place.get(name) ?? usual)) || 0));
  const depths = (place.get("depths") ?? opening(width).join(",")).split(",").filter((text) => text !== "").map(Number);
  const n = Math.max(1, number("n", Math.min(USUAL, most), most));
  scope.set({ n, row: Math.min(n - 1, number("row", Math.floor(n / 2), most - 1)), depths: depths.filter((depth) => Number.isInteger(depth) && depth >= 0 && depth < width).slice(0, MOST_CURVES), pointed: null });
  scope.watch(["n", "row", "depths"], (state) => place.set({ n: state.n, row: state.row, depths: state.depths.join(",") }));
  const parts = [codesPart, curvesPart, alikePart, rowPart].map((part) => part(found, scope, width));
  return [counter(most, scope), element("div", { class: "positions" }, ...parts), table(found, scope, width)];
}

/** A fast wave, a slow one, and two between. */
function opening(width) {
  return [...new Set([0, 0.14, 0.28, 0.5].map((share) => Math.min(width - 1, Math.floor(width * share)) & ~1))];
}

function counter(most, scope) {
  const said = element("output", { class: "number" });
  const slider = element("input", { type: "range", id: "how-many", min: Math.min(2, most), max: most, step: 1, on: { input: () => {
    const n = Number(slider.value);
    scope.set({ n, row: Math.min(scope.state.row, n - 1), pointed: null });
  } } });
  scope.watch(["n"], ({ n }) => {
    slider.value = n;
    said.textContent = n;
  });
  return element("section", { class: "knob counter" }, element("label", { for: "how-many" }, "Positions shown"), slider, said);
}

function codesPart(found, scope, width) {
  const readout = element("output", { class: "readout" });
  const low = element("span");
  const high = element("span");
  const picture = grid({ label: "Codes of positions", across: "depth →", down: "position", point: (cell) => point(scope, cell), pick: ({ column }) => toggle(scope, column) });
  scope.watch(["n", "palette"], ({ n, palette }) => {
    const data = found.codes.data.subarray(0, n * width);
    const reach = reachOf(data);
    picture.draw({ shape: [n, width], data, reach, palette });
    [low.textContent, high.textContent] = [short(-reach), short(reach)];
  });
  scope.watch(["n", "pointed", "depths"], ({ pointed, depths }) => {
    picture.mark([...depths.map((column) => ({ column, kind: "tab" })), ...(pointed === null ? [] : [{ row: pointed.row, kind: "here" }])]);
    if (pointed?.column === undefined) return fill(readout, "Point at a cell to read its number; click a column to draw it as a curve.");
    return fill(readout, `Position ${pointed.row}, ${named(found, pointed.column, width)}: `, element("b", { class: "number" }, short(found.codes.data[pointed.row * width + pointed.column])));
  });
  const scale = element("p", { class: "legend" }, element("span", { class: "scale" }, low, element("span", { class: "ramp signed" }), high));
  return part("codes", "Position × depth", TOLD[found.kind], [scale, picture.node, readout], () => matrix(found.codes, scope.state.n, width));
}

function curvesPart(found, scope, width) {
  const picture = chart({ label: "Curves of the chosen depths", point: (row) => point(scope, row === null ? null : { row }) });
  const legend = element("ul", { class: "curve-legend" });
  const slider = element("input", { type: "range", id: "which-depth", min: 0, max: width - 1, step: 1, on: { input: () => {
    const depth = Number(slider.value);
    const { depths } = scope.state;
    if (!depths.includes(depth)) scope.set({ depths: [...depths.slice(0, -1), depth] });
  } } });
  const more = button("Add a depth", () => toggle(scope, free(scope.state.depths, Number(slider.value), width)));
  scope.measure(picture.node, picture.measured);
  scope.watch(["n", "depths", "pointed"], ({ n, depths, pointed }) => {
    const curves = depths.map((depth, k) => ({ kind: found.wavelengths?.[depth] < n / MOST_WAVES ? `c${k} fast` : `c${k}`, data: Array.from({ length: n }, (_, row) => found.codes.data[row * width + depth]) }));
    picture.draw({ curves, count: n, reach: reachOf(found.codes.data.subarray(0, n * width)), at: pointed?.row ?? null });
    more.disabled = depths.length >= Math.min(MOST_CURVES, width);
    slider.disabled = depths.length === 0;
    if (depths.length > 0) slider.value = depths.at(-1);
    fill(legend, ...depths.map((depth, k) => element("li", {}, element("i", { class: `sample c${k}`, "aria-hidden": "true" }), named(found, depth, width),
      pointed === null ? null : element("b", { class: "number" }, ` ${short(curves[k].data[pointed.row])}`),
      button("×", () => toggle(scope, depth), { class: "link", "aria-label": `Remove depth ${depth}` }))));
  });
  const chooser = element("div", { class: "knob" }, element("label", { for: "which-depth" }, "Last depth"), slider, more);
  const about = found.kind === "learned" ? "One column of the matrix, read downwards." : "One column of the matrix, read downwards. Fast waves tell neighbours apart, slow ones the beginning from the end.";
  return part("curves", "Chosen depths", about, [chooser, picture.node, legend], () =>
    scope.state.depths.map((depth) => ({ depth, values: Array.from({ length: scope.state.n }, (_, row) => exact(found.codes.data[row * width + depth])) })));
}

function alikePart(found, scope) {
  const readout = element("output", { class: "readout" });
  const side = found.alike.shape[0];
  const picture = grid({ label: "Similarity of positions", across: "position →", down: "position", point: (cell) => point(scope, cell === null ? null : { row: cell.row, other: cell.column }), pick: ({ row }) => scope.set({ row }) });
  scope.watch(["n", "palette"], ({ n, palette }) => picture.draw({ shape: [n, n], data: corner(found.alike, n), reach: 1, palette }));
  scope.watch(["n", "row", "pointed"], ({ row, pointed }) => {
    picture.mark([{ row, kind: "chosen" }, ...(pointed === null ? [] : [{ row: pointed.row, kind: "here" }])]);
    if (pointed?.other === undefined) return fill(readout, "Point at two positions to read how alike they are; click a row to draw it as a curve.");
    return fill(readout, `Positions ${pointed.row} and ${pointed.other}: `, element("b", { class: "number" }, short(found.alike.data[pointed.row * side + pointed.other])));
  });
  return part("alike", "How alike positions are", "The cosine of the angle between two codes: 1 for the same, 0 for nothing in common, below 0 for opposite ones.", [picture.node, readout], () => matrix(found.alike, scope.state.n, scope.state.n));
}

function rowPart(found, scope) {
  const picture = chart({ label: "Similarity of one position with all", point: (row) => point(scope, row === null ? null : { row }) });
  const said = element("output", { class: "readout" });
  const side = found.alike.shape[0];
  const slider = element("input", { type: "range", id: "which-row", min: 0, step: 1, on: { input: () => scope.set({ row: Number(slider.value) }) } });
  scope.measure(picture.node, picture.measured);
  scope.watch(["n", "row", "pointed"], ({ n, row, pointed }) => {
    slider.max = n - 1;
    slider.value = row;
    const data = found.alike.data.subarray(row * side, row * side + n);
    picture.draw({ curves: [{ data, kind: "c0" }], count: n, reach: 1, at: pointed?.row ?? row });
    fill(said, `Position ${row} and ${pointed?.row ?? row}: `, element("b", { class: "number" }, short(data[pointed?.row ?? row])));
  });
  const chooser = element("div", { class: "knob" }, element("label", { for: "which-row" }, "Position"), slider);
  const about = found.kind === "learned" ? "One row of the similarities: what the model has learned of near and far." : "One row of the similarities: near positions are alike, and the same distance looks the same everywhere.";
  return part("row", "One position among all", about, [chooser, picture.node, said], () => ({ position: scope.state.row, similarities: Array.from(found.alike.data.subarray(scope.state.row * side, scope.state.row * side + scope.state.n), exact) }));
}

/** The numbers of the curves, for screen readers and for copying. */
function table(found, scope, width) {
  const inner = element("div", { class: "scroller" });
  const folded = element("details", { class: "numbers" }, element("summary", {}, "The numbers of the curves as a table"), inner);
  const redraw = () => {
    if (!folded.open) return;
    const { n, row, depths } = scope.state;
    const side = found.alike.shape[0];
    const head = ["position", ...depths.map((depth) => `depth ${depth}`), `similarity to ${row}`];
    const line = (at) => [...depths.map((depth) => found.codes.data[at * width + depth]), found.alike.data[row * side + at]];
    fill(inner, element("table", {}, element("caption", {}, "Chosen depths, and the similarity to one position"),
      element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...Array.from({ length: n }, (_, at) => element("tr", {}, element("th", { scope: "row" }, String(at)), ...line(at).map((value) => element("td", {}, short(value))))))));
  };
  folded.addEventListener("toggle", redraw);
  scope.watch(["n", "row", "depths"], redraw);
  return element("section", {}, folded);
}

function part(id, title, about, children, data) {
  const node = section(id, title, about, ...children);
  node.append(saving(`positions-${id}`, node, data));
  return node;
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

function named({ kind, wavelengths }, depth, width) {
  if (wavelengths === null) return `depth ${depth}`;
  const sine = kind === "sinusoidal_halves" ? depth < width / 2 : depth % 2 === 0;
  return `depth ${depth} (${sine ? "sine" : "cosine"}, again after ${short(wavelengths[depth])} positions)`;
}

function reachOf(data) {
  return data.reduce((most, number) => Math.max(most, Math.abs(number)), 0) || 1;
}

function corner({ shape: [, side], data }, n) {
  const part = new Float32Array(n * n);
  for (let row = 0; row < n; row++) part.set(data.subarray(row * side, row * side + n), row * n);
  return part;
}

function matrix({ shape: [, side], data }, n, width) {
  return Array.from({ length: n }, (_, row) => Array.from(data.subarray(row * side, row * side + width), exact));
}
