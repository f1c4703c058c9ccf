// The architecture diagram, as in the paper, from bottom to top; the box of the current stage is highlighted.

import { element, svg } from "/drawing/dom.js";

const [WIDE, HIGH, GAP] = [78, 21, 5];
const NAMES = { self_attention: "attention", cross_attention: "cross-att.", feed_forward: "feed-forw.", embedding: "embedding", positions: "+ position", end: "layers", linear: "linear", head: "softmax" };

/** Draw the diagram of the stages; return {node, mark(box)}. `go` is called with the first stage of a clicked box. */
export function map(stages, nLayers, go) {
  const towers = [...new Set(stages.map(({ tower }) => tower))];
  const columns = towers.map((tower) => [...new Set(stages.filter((stage) => stage.tower === tower).map(({ box }) => box))]);
  const highest = Math.max(...columns.map(({ length }) => length));
  const [width, height] = [towers.length * (WIDE + 30) + 2, highest * (HIGH + GAP) + 14];
  const boxes = new Map();
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  columns.forEach((column, side) => {
    const x = 24 + side * (WIDE + 30);
    const y = (index) => height - 4 - (index + 1) * (HIGH + GAP);
    const inLayer = column.filter((box) => /attention|feed/.test(box));
    const [first, last] = [column.indexOf(inLayer[0]), column.indexOf(inLayer.at(-1))];
    picture.append(svg("rect", { class: "frame", x: x - 5, y: y(last) - 3, width: WIDE + 10, height: y(first) - y(last) + HIGH + 6, rx: 6 }));
    picture.append(svg("text", { class: "times", x: x - 8, y: y(first) + HIGH / 2, "text-anchor": "end" }, `${nLayers(towers[side])}×`));
    if (side === 1) {
      const top = height - 4 - columns[0].length * (HIGH + GAP);
      const to = y(column.indexOf("decoder.cross_attention")) + HIGH / 2;
      picture.append(svg("path", { class: "across", d: `M${24 + WIDE / 2} ${top}v-8H${x - 14}V${to}H${x}` }));
    }
    column.forEach((box, index) => {
      const [tower, sub, part] = box.split(".");
      const name = part === undefined ? NAMES[sub] : part === "residual" ? "+ add" : "norm";
      const node = svg("g", { class: `stop ${part ?? sub} ${tower}` }, svg("rect", { x, y: y(index), width: WIDE, height: HIGH, rx: 4 }), svg("text", { x: x + WIDE / 2, y: y(index) + HIGH / 2 }, name));
      node.addEventListener("click", () => go(stages.findIndex((stage) => stage.box === box)));
      boxes.set(box, node);
      picture.append(node);
    });
  });
  const title = element("p", { class: "note" }, "Current stage");
  const names = element("p", { class: "towers note" }, towers.length === 2 ? "encoder → decoder" : towers[0]);
  return {
    node: element("div", { class: "map" }, title, picture, names),
    mark: (box) => boxes.forEach((node, name) => node.classList.toggle("here", name === box)),
  };
}
