// Positions: the position encodings of a model, single dimensions of them as curves, and their cosine similarity.

import { button, element, fill, section, svg } from "/page/dom.js";
import { saveButton } from "/page/export.js";
import { Store } from "/page/store.js";
import { exact, short } from "/page/text.js";
import { unpack } from "/page/trace.js";
import { Scope } from "/page/view.js";
import { chart, grid } from "./pictures.js";
import { errorLine } from "../view_parts.js";

const MAX_POSITIONS = 512;
const DEFAULT_POSITIONS = 64;
const MAX_CURVES = 6;
const MAX_WAVES = 20; // across a chart; faster ones are drawn fainter
const EXPLANATIONS = {
  sinusoidal: "Each row encodes one position: sine and cosine waves in turn, from high frequency at the left to low frequency at the right. The row is added to the embedding of the token at that position. Nothing is learned.",
  sinusoidal_halves: "Each row encodes one position: sines in the left half and cosines in the right, each from high to low frequency. The row is added to the embedding of the token at that position. Nothing is learned.",
  learned: "Each row is the learned embedding of one position. It is added to the embedding of the token at that position.",
  rope: "Rotary position embeddings (RoPE). Nothing is added to the embeddings: in every head, pairs of dimensions of queries and keys are rotated by angles that grow with the position. Shown are the sines and cosines of these angles, high frequencies at the left.",
};

/** Draw the view into an element; return a function that removes it. */
export function mount(host, { model, fetchJson, params, themed }) {
  const { problem, attempt } = errorLine();
  const scope = new Scope(new Store({ palette: null }));
  const body = element("div", {}, element("p", { class: "waiting" }, "…"));
  const stopped = new AbortController();
  fill(host, problem, body);
  scope.onEnd(themed(scope.store));
  attempt(async () => {
    const response = await fetchJson("/studio-api/positions", { model: model.id, n: MAX_POSITIONS }, { signal: stopped.signal });
    if (!stopped.signal.aborted) fill(body, ...drawn(read(response), scope, params));
  }).then(() => problem.textContent !== "" && fill(body));
  return () => {
    stopped.abort();
    scope.end();
    fill(host);
  };
}

/** The response with accessors for its numbers. */
function read({ encodings, similarities, ...response }) {
  const [{ shape: [most, width], data }, { data: cosines }] = [unpack(encodings), unpack(similarities)];
  const all = (n, m, number) => Array.from({ length: n }, (_, row) => Array.from({ length: m }, (_, column) => exact(number(row, column))));
  const found = { ...response, most, width, encoding: (row, dimension) => data[row * width + dimension], cosine: (one, other) => cosines[one * most + other] };
  return {
    ...found,
    reach: (n) => data.subarray(0, n * width).reduce((far, number) => Math.max(far, Math.abs(number)), 0) || 1,
    columnOf: (dimension, n) => Array.from({ length: n }, (_, row) => found.encoding(row, dimension)),
    rowOf: (row, n) => cosines.subarray(row * most, row * most + n),
    encodings: (n) => all(n, width, found.encoding),
    cosines: (n) => all(n, n, found.cosine),
  };
}

function drawn(found, scope, params) {
  const { most, width } = found;
  const whole = (name, usual, low, high) => Math.max(low, Math.min(high, Math.round(Number(params.get(name) ?? usual)) || low));
  const n = whole("n", Math.min(DEFAULT_POSITIONS, most), 1, most);
  const dimensions = (params.get("dimensions") ?? initialDimensions(width).join(",")).split(",").filter((text) => /^\d+$/.test(text)).map(Number);
  scope.set({ n, row: whole("row", Math.floor(n / 2), 0, n - 1), dimensions: dimensions.filter((dimension) => dimension < width).slice(0, MAX_CURVES), hovered: null });
  scope.watch(["n", "row", "dimensions"], (state) => params.set({ n: state.n, row: state.row, dimensions: state.dimensions.join(",") }));
  const said = element("output", { class: "number" });
  const [counter, slider] = knob("Positions shown", "how-many", (count) => scope.set({ n: count, row: Math.min(scope.state.row, count - 1), hovered: null }), said);
  [slider.min, slider.max] = [Math.min(2, most), most];
  scope.watch(["n"], (state) => (slider.value = said.textContent = state.n));
  const parts = [encodingsPart, curvesPart, similaritiesPart, rowPart].map((part) => part(found, scope));
  return [element("section", { class: "counter" }, counter), element("div", { class: "positions" }, ...parts), element("section", {}, positionsTable(found, scope))];
}

/** A fast wave, a slow one, and two in between. */
function initialDimensions(width) {
  return [...new Set([0, 0.14, 0.28, 0.5].map((share) => Math.min(width - 1, Math.floor(width * share)) & ~1))];
}

function encodingsPart(found, scope) {
  const { width } = found;
  const [low, high, readout] = [element("span"), element("span"), element("output", { class: "readout" })];
  const picture = grid({ label: "Position encodings", across: "dimension →", down: "↓ position", point: (cell) => point(scope, cell), pick: ({ column }) => toggle(scope, column) });
  scope.watch(["n", "palette"], ({ n, palette }) => {
    const reach = found.reach(n);
    picture.draw({ rows: n, columns: width, number: found.encoding, reach, palette });
    [low.textContent, high.textContent] = [short(-reach), short(reach)];
  });
  scope.watch(["n", "hovered", "dimensions"], ({ hovered, dimensions }) => {
    picture.mark([...dimensions.map((column) => ({ column, kind: "tab" })), ...here(hovered)]);
    if (hovered?.column === undefined) fill(readout, hint("Hover over a cell to see its value; click a column to plot it as a curve."));
    else fill(readout, `Position ${hovered.row}, ${describeDimension(found, hovered.column)}: `, value(found.encoding(hovered.row, hovered.column)));
  });
  const scale = element("p", { class: "legend" }, element("span", { class: "scale" }, low, element("span", { class: "ramp signed" }), high));
  return part("encodings", "Position encodings", EXPLANATIONS[found.kind], [scale, picture.node, readout], () => found.encodings(scope.state.n));
}

function curvesPart(found, scope) {
  const { width, wavelengths } = found;
  const picture = chart({ label: "Curves of the selected dimensions", point: (row) => point(scope, row === null ? null : { row }) });
  const legend = element("ul", { class: "curve-legend" });
  const more = button("Add a dimension", () => toggle(scope, free(scope.state.dimensions, Number(slider.value), width)));
  const [chooser, slider] = knob("Last dimension", "which-dimension", (dimension) => {
    const { dimensions } = scope.state;
    if (!dimensions.includes(dimension)) scope.set({ dimensions: [...dimensions.slice(0, -1), dimension] });
  }, more);
  slider.max = width - 1;
  scope.measure(picture.node, picture.measured);
  scope.watch(["n", "dimensions", "hovered"], ({ n, dimensions, hovered }) => {
    const curves = dimensions.map((dimension, k) => ({ kind: wavelengths?.[dimension] < n / MAX_WAVES ? `c${k} fast` : `c${k}`, data: found.columnOf(dimension, n) }));
    picture.draw({ curves, count: n, reach: found.reach(n), at: hovered?.row ?? null });
    more.disabled = dimensions.length >= Math.min(MAX_CURVES, width);
    slider.disabled = dimensions.length === 0;
    if (dimensions.length > 0) slider.value = dimensions.at(-1);
    fill(legend, ...dimensions.map((dimension, k) => element("li", {}, svg("svg", { width: 28, height: 10, "aria-hidden": "true" }, svg("path", { d: "M1 5H27", class: `c${k}` })), describeDimension(found, dimension),
      hovered === null ? null : value(curves[k].data[hovered.row]),
      button("×", () => toggle(scope, dimension), { class: "link", "aria-label": `Remove dimension ${dimension}` }))));
  });
  const about = `One column of the matrix, from top to bottom.${wavelengths === null ? "" : " High frequencies distinguish neighbors, low ones the beginning from the end."}`;
  return part("curves", "Selected dimensions", about, [chooser, picture.node, legend], () =>
    scope.state.dimensions.map((dimension) => ({ dimension, values: found.columnOf(dimension, scope.state.n).map(exact) })));
}

function similaritiesPart(found, scope) {
  const readout = element("output", { class: "readout" });
  const picture = grid({ label: "Similarity of positions", across: "position →", down: "↓ position", point: (cell) => point(scope, cell && { row: cell.row, other: cell.column }), pick: ({ row }) => scope.set({ row }) });
  scope.watch(["n", "palette"], ({ n, palette }) => picture.draw({ rows: n, columns: n, number: found.cosine, reach: 1, palette }));
  scope.watch(["n", "row", "hovered"], ({ row, hovered }) => {
    picture.mark([{ row, kind: "chosen" }, ...here(hovered)]);
    if (hovered?.other === undefined) fill(readout, hint("Hover over a cell to see the similarity of two positions; click a row to plot it as a curve."));
    else fill(readout, `Positions ${hovered.row} and ${hovered.other}: `, value(found.cosine(hovered.row, hovered.other)));
  });
  const about = "Cosine similarity of the encodings of two positions: 1 for the same direction, 0 for orthogonal, −1 for opposite.";
  return part("similarities", "Similarity of positions", about, [picture.node, readout], () => found.cosines(scope.state.n));
}

function rowPart(found, scope) {
  const picture = chart({ label: "Similarity of one position to all", point: (row) => point(scope, row === null ? null : { row }) });
  const readout = element("output", { class: "readout" });
  const [chooser, slider] = knob("Position", "which-row", (row) => scope.set({ row }));
  scope.measure(picture.node, picture.measured);
  scope.watch(["n", "row", "hovered"], ({ n, row, hovered }) => {
    [slider.max, slider.value] = [n - 1, row];
    const at = hovered?.row ?? row;
    picture.draw({ curves: [{ data: found.rowOf(row, n), kind: "c0" }], count: n, reach: 1, at });
    fill(readout, `Position ${row} and ${at}: `, value(found.cosine(row, at)));
  });
  const about = found.wavelengths === null ? "what the model has learned about distance." : "nearby positions are similar, and similarity depends only on the distance.";
  return part("row", "Similarity to one position", `One row of the similarity matrix: ${about}`, [chooser, picture.node, readout], () =>
    ({ position: scope.state.row, similarities: Array.from(found.rowOf(scope.state.row, scope.state.n), exact) }));
}

function part(id, title, about, children, data) {
  const node = section(id, title, about, ...children);
  node.append(saveButton(`positions-${id}`, node, data));
  return node;
}

/** A labeled slider, optionally followed by another element: [the whole, the slider]. */
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

function here(hovered) {
  return hovered === null ? [] : [{ row: hovered.row, kind: "here" }];
}

function point(scope, cell) {
  const { hovered } = scope.state;
  if (cell?.row !== hovered?.row || cell?.column !== hovered?.column || cell?.other !== hovered?.other) scope.set({ hovered: cell });
}

function toggle(scope, dimension) {
  const { dimensions } = scope.state;
  scope.set({ dimensions: dimensions.includes(dimension) ? dimensions.filter((one) => one !== dimension) : [...dimensions, dimension].slice(-MAX_CURVES) });
}

/** The first dimension from `start` that is not drawn yet. */
function free(dimensions, start, width) {
  return Array.from({ length: width }, (_, by) => (start + by) % width).find((dimension) => !dimensions.includes(dimension));
}

function describeDimension({ kind, wavelengths, width }, dimension) {
  if (wavelengths === null) return `dimension ${dimension}`;
  const sine = kind === "sinusoidal_halves" ? dimension < width / 2 : dimension % 2 === 0;
  return `dimension ${dimension} (${sine ? "sine" : "cosine"}, wavelength ${short(wavelengths[dimension])} positions)`;
}

/** Create the collapsible table, for screen readers and for copying: a row per position, a column per curve. */
function positionsTable({ encoding, cosine }, scope) {
  const inner = element("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": "Table" });
  const folded = element("details", { class: "numbers" }, element("summary", {}, "Values as a table"), inner);
  const redraw = () => {
    if (!folded.open) return;
    const { n, row, dimensions } = scope.state;
    const cells = (names, tag) => names.map((name) => element(tag, tag === "th" ? { scope: "col" } : {}, name));
    const line = (at) => [...dimensions.map((dimension) => encoding(at, dimension)), cosine(row, at)].map(short);
    fill(inner, element("table", {}, element("caption", {}, "Selected dimensions, and similarity to one position"),
      element("thead", {}, element("tr", {}, ...cells(["position", ...dimensions.map((dimension) => `dimension ${dimension}`), `similarity to ${row}`], "th"))),
      element("tbody", {}, ...Array.from({ length: n }, (_, at) => element("tr", {}, element("th", { scope: "row" }, String(at)), ...cells(line(at), "td"))))));
  };
  folded.addEventListener("toggle", redraw);
  scope.watch(["n", "row", "dimensions"], redraw);
  return folded;
}
