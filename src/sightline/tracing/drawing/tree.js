// The beam tree: every hypothesis that was looked at, step by step from left to right, the best along the top.

import { element, fill, svg } from "./dom.js";
import { short, windowStart } from "./numbers.js";
import { fontOf } from "./rows.js";
import { colourOf, paint } from "./scale.js";
import { clipped, quoted, visible } from "./texts.js";
import { unpack } from "./packed.js";
import { view } from "./view.js";

const [WIDE, HIGH, CHIP, MOST_STEPS] = [104, 27, 84, 24];
const FATES = { alive: "continued", finished: "complete", pruned: "dropped: others were better" };

/** Draw the tree of a trace that has one. */
export const tree = view("tree", (trace, store) => {
  if (trace.tree === null || trace.tree.nodes.length === 0) return null;
  const rows = ordered(trace.tree.nodes);
  const looked = Object.fromEntries(Object.entries(trace.tree.attention).map(([name, array]) => [name, unpack(array)]));
  const best = pathTo(trace.tree.nodes, trace.tree.nodes.findIndex((node) => node.result === 0));
  const scroller = element("div", { class: "scroller" });
  const readout = element("output", { class: "readout", "aria-live": "polite" }, element("span", { class: "hint" }, "Point at a hypothesis for its numbers."));
  const where = element("div", { class: "strip small" });
  const note = element("p", { class: "note" });
  let chosen = null;
  const show = (place) => {
    chosen = place;
    for (const node of scroller.querySelectorAll(".node")) node.classList.remove("onpath");
    for (const step of pathTo(trace.tree.nodes, place)) scroller.querySelector(`[data-node="${step}"]`)?.classList.add("onpath");
    fill(readout, ...told(trace.tree.nodes, place));
    fill(where, ...looks(trace, store.state, looked, trace.tree.nodes[place]));
  };
  const parts = { trace, store, rows, best, show, scroller, note };
  let first = null;
  store.watch(["step"], ({ step }) => {
    const start = windowStart(first, step, rows.length, MOST_STEPS);
    if (start !== first) fill(scroller, picture(parts, start));
    first = start;
    for (const node of scroller.querySelectorAll(".node")) node.classList.toggle("now", Number(node.dataset.step) === step);
    const at = (step - first) * WIDE;
    store.afterwards(scroller, () => {
      if (at < scroller.scrollLeft || at + WIDE > scroller.scrollLeft + scroller.clientWidth) scroller.scrollLeft = at - WIDE;
    });
  });
  store.watch(["heads", "palette"], () => chosen !== null && show(chosen));
  const node = element("div", { class: "picture tree" }, scroller, readout, where, note, listing(trace.tree.nodes));
  return { node, data: () => ({ nodes: trace.tree.nodes }) };
});

/** Return the nodes' places step by step, children in the order of their parents, the best path first. */
function ordered(nodes) {
  const best = new Set(pathTo(nodes, nodes.findIndex((node) => node.result === 0)));
  const rank = new Map();
  const rows = [];
  nodes.forEach((node, place) => (rows[node.step] ??= []).push(place));
  for (const row of rows) {
    row.sort((a, b) => {
      const [first, second] = [nodes[a], nodes[b]];
      const parents = (rank.get(first.parent) ?? 0) - (rank.get(second.parent) ?? 0);
      return parents || Number(best.has(b)) - Number(best.has(a)) || second.log_probability - first.log_probability;
    });
    row.forEach((place, number) => rank.set(place, number));
  }
  return rows;
}

function pathTo(nodes, place) {
  const path = [];
  for (let at = place; at !== null && at >= 0; at = nodes[at].parent) path.push(at);
  return path;
}

function picture({ trace, store, rows, best, show, note }, first) {
  const nodes = trace.tree.nodes;
  const shown = rows.slice(first, first + MOST_STEPS);
  const height = Math.max(...shown.map((row) => row.length)) * HIGH + 8;
  const places = new Map();
  shown.forEach((row, x) => row.forEach((place, y) => places.set(place, { x: x * WIDE + 4, y: y * HIGH + 4 })));
  const edges = svg("g", { class: "edges" });
  const chips = svg("g");
  for (const [place, { x, y }] of places) {
    const node = nodes[place];
    const from = places.get(node.parent);
    const classes = ["node", node.fate, best.includes(place) ? "best" : ""].join(" ");
    if (from !== undefined) edges.append(svg("path", { class: classes.replace("node", "edge"), d: edge(from, { x, y }) }));
    chips.append(chip(node, place, x, y, classes, { store, show }));
  }
  note.textContent = shown.length < rows.length
    ? `Steps ${first + 1} to ${first + shown.length} of ${rows.length} are drawn; the film moves them.`
    : "";
  const label = `Beam tree of ${nodes.length} hypotheses over ${rows.length} steps; the list below holds the results.`;
  return svg("svg", { width: shown.length * WIDE, height, role: "group", "aria-label": label }, edges, chips);
}

function chip(node, place, x, y, classes, { store, show }) {
  const text = `${clipped(node.text, 9)}${node.fate === "finished" ? " ■" : ""}`;
  const group = svg("g", { class: classes, "data-node": place, "data-step": node.step, tabindex: 0, role: "button", "aria-label": `${quoted(node.text)}, ${FATES[node.fate]}, ${short(Math.exp(node.token_log_probability))}` },
    svg("rect", { x, y, width: CHIP, height: HIGH - 6, rx: 5 }),
    svg("rect", { class: "share", x, y: y + HIGH - 9, width: (CHIP * Math.exp(node.token_log_probability)).toFixed(2), height: 3 }),
    svg("text", { x: x + CHIP / 2, y: y + (HIGH - 8) / 2, style: { font: fontOf(12) } }, text),
  );
  group.addEventListener("mouseenter", () => show(place));
  group.addEventListener("focus", () => show(place));
  group.addEventListener("click", () => store.set({ step: Math.min(node.step, Math.max(0, store.state.trace.steps.length - 1)), playing: false }));
  return group;
}

function edge(from, to) {
  const [x0, y0, x1, y1] = [from.x + CHIP, from.y + HIGH / 2 - 3, to.x, to.y + HIGH / 2 - 3];
  const middle = (x0 + x1) / 2;
  return `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}`;
}

function told(nodes, place) {
  const node = nodes[place];
  const text = pathTo(nodes, place).reverse().map((at) => visible(nodes[at].text)).join(" ");
  return [
    element("b", { dir: "auto" }, `\u2068${text}\u2069`),
    element("span", {}, ` ${FATES[node.fate]}${node.result === null ? "" : `, result ${node.result + 1}`}; `),
    element("span", { class: "number" }, `token ${short(Math.exp(node.token_log_probability))}, log-probability ${short(node.log_probability)}, score ${short(node.score)}`),
  ];
}

/** The source with what the chosen heads saw when this hypothesis was continued. */
function looks(trace, { heads, palette }, looked, node) {
  const array = looked[`${heads[0].name}.weights`];
  const [, columnPassage] = trace.axes(heads[0].name);
  if (array === undefined || columnPassage !== "source") return [];
  const [, rows, columns] = array.shape;
  const chips = trace.source.tokens.slice(0, columns).map((token, column) => {
    const all = heads.map(({ name, head }) => looked[`${name}.weights`]?.data[(head * rows + node.row) * columns + column] ?? 0);
    const weight = all.reduce((sum, one) => sum + one, 0) / all.length;
    const one = element("span", { class: "token", dir: "auto", title: short(weight) }, clipped(token.text));
    paint(one, weight < 0.004 ? null : colourOf(palette.weight, weight));
    return one;
  });
  return [element("span", { class: "strip-name" }, "looked at"), ...chips];
}

/** The results as a list, best first. */
function listing(nodes) {
  const ends = nodes.map((node, place) => ({ node, place })).filter(({ node }) => node.result !== null);
  ends.sort((a, b) => a.node.result - b.node.result);
  const items = ends.map(({ node, place }) => {
    const path = pathTo(nodes, node.fate === "finished" ? node.parent : place); // the end token is no text
    const text = path.reverse().map((at) => nodes[at].text).join("");
    return element("li", {}, element("bdi", {}, clipped(text, 160)), element("span", { class: "number" }, ` score ${short(node.score)}`));
  });
  return element("ol", { class: "results", "aria-label": "Results, best first" }, ...items);
}
