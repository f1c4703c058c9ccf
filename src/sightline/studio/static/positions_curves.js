// Curves over positions, with a marker at the hovered position.

import { element, fill, svg } from "/drawing/dom.js";
import { short } from "/drawing/numbers.js";
import { steps } from "./positions_grid.js";

const [LEFT, RIGHT, TOP, BOTTOM, HEIGHT] = [48, 8, 8, 22, 290];

/** Create a chart: {node, draw}. `point(position)` is called with the hovered position. */
export function chart({ label, point }) {
  const picture = svg("svg", { class: "chart", height: HEIGHT, role: "img", "aria-label": label });
  const node = element("div", { class: "chart-view" }, picture);
  let [width, shown] = [0, null];
  const redraw = () => width > 0 && shown !== null && fill(picture, ...drawn(shown, width));
  picture.addEventListener("pointermove", (event) => {
    const along = (event.clientX - picture.getBoundingClientRect().left - LEFT) / (width - LEFT - RIGHT);
    point(Math.max(0, Math.min(shown.count - 1, Math.round(along * (shown.count - 1)))));
  });
  picture.addEventListener("pointerleave", () => point(null));
  /** Draw curves [{data, kind}] of `count` values from −reach to reach, and the hovered position. */
  const draw = (what) => {
    shown = what;
    redraw();
  };
  const measured = (room) => {
    width = room;
    picture.setAttribute("width", room);
    redraw();
  };
  return { node, draw, measured };
}

function drawn({ curves, count, reach, at }, width) {
  const x = (index) => round(LEFT + (index / Math.max(1, count - 1)) * (width - LEFT - RIGHT));
  const y = (number) => round(TOP + ((reach - number) / (2 * reach)) * (HEIGHT - TOP - BOTTOM));
  const line = (d, kind) => svg("path", { d, class: kind });
  const heights = [reach, 0, -reach].flatMap((number) => [
    line(`M${LEFT} ${y(number)}H${width - RIGHT}`, "rule"),
    svg("text", { x: LEFT - 6, y: y(number), class: "tick side" }, short(number)),
  ]);
  const ticks = steps(count).map((number) => svg("text", { x: x(number), y: HEIGHT - 6, class: "tick" }, String(number)));
  const paths = curves.map(({ data, kind }) => line(Array.from(data, (number, index) => `${index === 0 ? "M" : "L"}${x(index)} ${y(number)}`).join(""), `curve ${kind}`));
  return [...heights, ...ticks, ...paths, at === null ? null : line(`M${x(at)} ${TOP}V${HEIGHT - BOTTOM}`, "here")];
}

function round(number) {
  return Math.round(number * 100) / 100;
}
