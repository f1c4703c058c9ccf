// The beam search tree: every hypothesis, step by step from left to right, the best along the top.

import { windowStart } from "./decoding_steps.js";
import { element, fill, svg } from "./dom.js";
import { clip, fontOf, quote, short, visible } from "./text.js";
import { colorOf, paint } from "./theme.js";
import { unpack } from "./trace.js";
import { view } from "./view.js";

const [WIDE, HIGH, CHIP, MAX_STEPS] = [104, 27, 84, 24];
const FATES = { alive: "continued", finished: "finished", pruned: "pruned" };

/** Draw the tree of a trace that has one. */
export const tree = view("tree", (trace, store) => {
  if (trace.tree === null || trace.tree.nodes.length === 0) return null;
  const rows = orderBySteps(trace.tree.nodes);
  const attended = Object.fromEntries(Object.entries(trace.tree.attention).map(([name, array]) => [name, unpack(array)]));
  const best = pathTo(trace.tree.nodes, trace.tree.nodes.findIndex((node) => node.result === 0));
  const scroller = element("div", { class: "scroller" });
  const readout = element("output", { class: "readout", "aria-live": "polite" }, element("span", { class: "hint" }, "Hover over a hypothesis to see its scores."));
  const where = element("div", { class: "strip small" });
  const note = element("p", { class: "note" });
  let chosen = null;
  const show = (index) => {
    chosen = index;
    for (const node of scroller.querySelectorAll(".node")) node.classList.remove("onpath");
    for (const step of pathTo(trace.tree.nodes, index)) scroller.querySelector(`[data-node="${step}"]`)?.classList.add("onpath");
    fill(readout, ...describeNode(trace.tree.nodes, index));
    fill(where, ...attendedSource(trace, store.state, attended, trace.tree.nodes[index]));
  };
  const parts = { trace, store, rows, best, show, scroller, note };
  let first = null;
  store.watch(["step"], ({ step }) => {
    const start = windowStart(first, step, rows.length, MAX_STEPS);
    if (start !== first) fill(scroller, picture(parts, start));
    first = start;
    for (const node of scroller.querySelectorAll(".node")) node.classList.toggle("now", Number(node.dataset.step) === step);
    const at = (step - first) * WIDE;
    store.beforeNextFrame(scroller, () => {
      if (at < scroller.scrollLeft || at + WIDE > scroller.scrollLeft + scroller.clientWidth) scroller.scrollLeft = at - WIDE;
    });
  });
  store.watch(["heads", "palette"], () => chosen !== null && show(chosen));
  const node = element("div", { class: "picture tree" }, scroller, readout, where, note, listing(trace.tree.nodes));
  return { node, data: () => ({ nodes: trace.tree.nodes }) };
});

/** Return the indices of the nodes step by step, children in the order of their parents, the best path first. */
function orderBySteps(nodes) {
  const best = new Set(pathTo(nodes, nodes.findIndex((node) => node.result === 0)));
  const rank = new Map();
  const rows = [];
  nodes.forEach((node, index) => (rows[node.step] ??= []).push(index));
  for (const row of rows) {
    row.sort((a, b) => {
      const [first, second] = [nodes[a], nodes[b]];
      const parents = (rank.get(first.parent) ?? 0) - (rank.get(second.parent) ?? 0);
      return parents || Number(best.has(b)) - Number(best.has(a)) || second.log_probability - first.log_probability;
    });
    row.forEach((index, number) => rank.set(index, number));
  }
  return rows;
}

function pathTo(nodes, index) {
  const path = [];
  for (let at = index; at !== null && at >= 0; at = nodes[at].parent) path.push(at);
  return path;
}

function picture({ trace, store, rows, best, show, note }, first) {
  const nodes = trace.tree.nodes;
  const shown = rows.slice(first, first + MAX_STEPS);
  const height = Math.max(...shown.map((row) => row.length)) * HIGH + 8;
  const positions = new Map();
  shown.forEach((row, x) => row.forEach((index, y) => positions.set(index, { x: x * WIDE + 4, y: y * HIGH + 4 })));
  const edges = svg("g", { class: "edges" });
  const chips = svg("g");
  for (const [index, { x, y }] of positions) {
    const node = nodes[index];
    const from = positions.get(node.parent);
    const classes = ["node", node.fate, best.includes(index) ? "best" : ""].join(" ");
    if (from !== undefined) edges.append(svg("path", { class: classes.replace("node", "edge"), d: edge(from, { x, y }) }));
    chips.append(chip(node, index, x, y, classes, { store, show }));
  }
  note.textContent = shown.length < rows.length
    ? `Steps ${first + 1} to ${first + shown.length} of ${rows.length} are drawn.`
    : "";
  const label = `Beam search tree of ${nodes.length} hypotheses over ${rows.length} steps; the results are listed below.`;
  return svg("svg", { width: shown.length * WIDE, height, role: "group", "aria-label": label }, edges, chips);
}

function chip(node, index, x, y, classes, { store, show }) {
  const text = `${clip(node.text, 9)}${node.fate === "finished" ? " ■" : ""}`;
  const group = svg("g", { class: classes, "data-node": index, "data-step": node.step, tabindex: 0, role: "button", "aria-label": `${quote(node.text)}, ${FATES[node.fate]}, ${short(Math.exp(node.token_log_probability))}` },
    svg("rect", { x, y, width: CHIP, height: HIGH - 6, rx: 5 }),
    svg("rect", { class: "share", x, y: y + HIGH - 9, width: (CHIP * Math.exp(node.token_log_probability)).toFixed(2), height: 3 }),
    svg("text", { x: x + CHIP / 2, y: y + (HIGH - 8) / 2, style: { font: fontOf(12) } }, text),
  );
  group.addEventListener("mouseenter", () => show(index));
  group.addEventListener("focus", () => show(index));
  group.addEventListener("click", () => store.set({ step: Math.min(node.step, Math.max(0, store.state.trace.steps.length - 1)), playing: false }));
  return group;
}

function edge(from, to) {
  const [x0, y0, x1, y1] = [from.x + CHIP, from.y + HIGH / 2 - 3, to.x, to.y + HIGH / 2 - 3];
  const middle = (x0 + x1) / 2;
  return `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}`;
}

function describeNode(nodes, index) {
  const node = nodes[index];
  const text = pathTo(nodes, index).reverse().map((at) => visible(nodes[at].text)).join(" ");
  return [
    element("b", { dir: "auto" }, `\u2068${text}\u2069`),
    element("span", {}, ` ${FATES[node.fate]}${node.result === null ? "" : `, result ${node.result + 1}`}; `),
    element("span", { class: "number" }, `token ${short(Math.exp(node.token_log_probability))}, log-probability ${short(node.log_probability)}, score ${short(node.score)}`),
  ];
}

/** The source tokens with the weights of the selected heads at this hypothesis. */
function attendedSource(trace, { heads, palette }, attended, node) {
  const array = attended[`${heads[0]?.name}.weights`];
  if (array === undefined || trace.axes(heads[0].name)[1] !== "source") return [];
  const [, rows, columns] = array.shape;
  const chips = trace.source.tokens.slice(0, columns).map((token, column) => {
    const all = heads.map(({ name, head }) => attended[`${name}.weights`]?.data[(head * rows + node.row) * columns + column] ?? 0);
    const weight = all.reduce((sum, one) => sum + one, 0) / all.length;
    const one = element("span", { class: "token", dir: "auto", title: short(weight) }, clip(token.text));
    paint(one, weight < 0.004 ? null : colorOf(palette.weight, weight));
    return one;
  });
  return [element("span", { class: "strip-name" }, "attends to"), ...chips];
}

/** The results as a list, best first. */
function listing(nodes) {
  const ends = nodes.map((node, index) => ({ node, index })).filter(({ node }) => node.result !== null);
  ends.sort((a, b) => a.node.result - b.node.result);
  const items = ends.map(({ node, index }) => {
    const path = pathTo(nodes, node.fate === "finished" ? node.parent : index); // without the end token
    const text = path.reverse().map((at) => nodes[at].text).join("");
    return element("li", {}, element("bdi", {}, clip(text, 160)), element("span", { class: "number" }, ` score ${short(node.score)}`));
  });
  return element("ol", { class: "results", "aria-label": "Results, best first" }, ...items);
}
