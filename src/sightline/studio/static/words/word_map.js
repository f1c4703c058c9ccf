// Thousands of words as points on a canvas, labeled where there is room; it can be panned and zoomed.

import { button, element, svg } from "/page/dom.js";
import { FAMILY, clip, fontOf, textWidth } from "/page/text.js";

const MARGIN = 40;
const MAX_NAMES = 250;
const REACH = 14;
const SIZES = { chosen: 15, guess: 15, near: 13, hovered: 13, plain: 12 };
const BUCKET = 48;

/** Create a map: {node, show, select, fit}. `pick(word)` is called with the clicked word. */
export function wordMap({ scope, pick }) {
  const canvas = element("canvas", { tabindex: 0, role: "img" });
  const zoom = element("div", { class: "zoom" },
    button("+", () => zoomBy(1.6), { "aria-label": "Zoom in" }),
    button("−", () => zoomBy(1 / 1.6), { "aria-label": "Zoom out" }),
    button("All", () => fit(null), { "aria-label": "Show all words" }));
  const node = element("div", { class: "map" }, canvas, zoom);
  let [width, height] = [0, 0];
  let [points, lines, marked] = [[], [], new Map()];
  let hovered = null;
  let view = { x: 0, y: 0, scale: 1 }; // the center of the map, and pixels per unit
  let whole = true;

  const at = ({ x, y }) => [width / 2 + (x - view.x) * view.scale, height / 2 - (y - view.y) * view.scale];
  const redraw = () => {
    canvas.style.touchAction = whole ? "" : "none"; // touch scrolls the page unless the map is zoomed
    if (width > 0 && points.length > 0) scope.beforeNextFrame(canvas, () => paint(scene()));
  };

  /** Zoom so that some words (null: all) are visible. */
  function fit(words) {
    whole = words === null;
    const some = whole ? points : points.filter(({ word }) => words.includes(word));
    if (some.length === 0 || width === 0) return;
    const [left, right] = extent(some.map(({ x }) => x));
    const [low, high] = extent(some.map(({ y }) => y));
    view = { x: (left + right) / 2, y: (low + high) / 2, scale: Math.min((width - 2 * MARGIN) / (right - left), (height - 2 * MARGIN) / (high - low)) };
    redraw();
  }

  function zoomBy(by, x = width / 2, y = height / 2) {
    const [dx, dy] = [(x - width / 2) / view.scale, (height / 2 - y) / view.scale];
    view = { x: view.x + dx * (1 - 1 / by), y: view.y + dy * (1 - 1 / by), scale: view.scale * by };
    whole = false;
    redraw();
  }

  function move(dx, dy) {
    view = { ...view, x: view.x - dx / view.scale, y: view.y + dy / view.scale };
    whole = false;
    redraw();
  }

  /** What is visible: dots, lines, and labels that do not overlap, the important ones first. */
  function scene() {
    const seen = points.map((one) => ({ ...one, at: at(one), kind: one.word === hovered && !marked.has(one.word) ? "hovered" : marked.get(one.word) ?? "plain" }))
      .filter(({ at: [x, y] }) => x > -20 && x < width + 20 && y > -20 && y < height + 20);
    const ranks = Object.keys(SIZES);
    const first = [...seen].sort((one, other) => ranks.indexOf(one.kind) - ranks.indexOf(other.kind));
    const names = named(first, width, height);
    const byWord = new Map(points.map((one) => [one.word, one]));
    return { dots: first.reverse(), names, lines: lines.filter((pair) => pair.every((word) => byWord.has(word))).map((pair) => pair.map((word) => at(byWord.get(word)))) };
  }

  function paint({ dots, names, lines: drawn }) {
    const ratio = devicePixelRatio || 1;
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    const brush = canvas.getContext("2d");
    const ink = inks();
    brush.scale(ratio, ratio);
    brush.lineWidth = 1.3;
    brush.strokeStyle = ink.chosen;
    brush.globalAlpha = 0.55;
    for (const [[x0, y0], [x1, y1]] of drawn) {
      brush.beginPath();
      brush.moveTo(x0, y0);
      brush.lineTo(x1, y1);
      brush.stroke();
    }
    brush.globalAlpha = 1;
    for (const kind of Object.keys(SIZES).reverse()) { // one path per kind: there may be thousands
      brush.globalAlpha = kind === "plain" ? 0.5 : 1;
      brush.fillStyle = kind === "plain" ? ink.dot : ink[kind];
      const size = radius(kind);
      brush.beginPath();
      for (const { at: [x, y], kind: own } of dots) {
        if (own !== kind) continue;
        brush.moveTo(x + size, y);
        brush.arc(x, y, size, 0, 7);
      }
      brush.fill();
    }
    brush.globalAlpha = 1;
    brush.textBaseline = "middle";
    brush.lineWidth = 3;
    brush.strokeStyle = ink.paper;
    for (const { text, x, y, kind } of names) {
      brush.font = font(kind);
      brush.strokeText(text, x, y); // an outline, as lines and points may cross it
      brush.fillStyle = ink[kind];
      brush.fillText(text, x, y);
    }
    canvas.dataset.names = names.length;
  }

  /** The same in SVG. */
  canvas.toSvg = () => {
    const { dots, names, lines: drawn } = scene();
    const ink = inks();
    return [
      ...drawn.map(([[x0, y0], [x1, y1]]) => svg("path", { d: `M${x0} ${y0}L${x1} ${y1}`, stroke: ink.chosen, "stroke-opacity": 0.55, "stroke-width": 1.3 })),
      ...dots.filter(({ at: [x, y] }) => x >= 0 && x <= width && y >= 0 && y <= height)
        .map(({ at: [x, y], kind }) => svg("circle", { cx: x, cy: y, r: radius(kind), ...(kind === "plain" ? { fill: ink.dot, "fill-opacity": 0.5 } : { fill: ink[kind] }) })),
      ...names.map(({ text, x, y, kind }) => svg("text", { x, y, fill: ink[kind], "font-family": FAMILY, "font-size": SIZES[kind], "font-weight": kind === "chosen" ? 700 : 500, "dominant-baseline": "central", stroke: ink.paper, "stroke-width": 3, "paint-order": "stroke" }, text)),
    ];
  };

  function inks() {
    const style = getComputedStyle(canvas);
    const [chosen, guess, ink, soft, residual, paper] = ["--weight", "--query", "--ink", "--soft", "--residual", "--surface"].map((name) => style.getPropertyValue(name));
    return { chosen, guess, near: ink, hovered: ink, plain: soft, dot: residual, paper };
  }

  function nearest(event) {
    const box = canvas.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    let [best, least] = [null, REACH ** 2];
    for (const one of points) {
      const [x, y] = at(one);
      const far = (x - px) ** 2 + (y - py) ** 2;
      if (far < least) [best, least] = [one.word, far];
    }
    return best;
  }

  let dragged = null;
  canvas.addEventListener("pointerdown", (event) => {
    dragged = { x: event.clientX, y: event.clientY, far: 0 };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (dragged !== null && event.buttons > 0) {
      const [dx, dy] = [event.clientX - dragged.x, event.clientY - dragged.y];
      dragged = { x: event.clientX, y: event.clientY, far: dragged.far + Math.abs(dx) + Math.abs(dy) };
      if (dragged.far > 4) move(dx, dy);
      return;
    }
    const word = nearest(event);
    if (word === hovered) return;
    hovered = word;
    redraw();
  });
  canvas.addEventListener("pointerup", (event) => {
    const word = dragged !== null && dragged.far <= 4 ? nearest(event) : null;
    dragged = null;
    if (word !== null) pick(word);
  });
  canvas.addEventListener("pointerleave", () => {
    hovered = null;
    redraw();
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // else the page scrolls
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    zoomBy(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] };
    if (event.key in moves) move(...moves[event.key]);
    else if (event.key === "+" || event.key === "-") zoomBy(event.key === "+" ? 1.6 : 1 / 1.6);
    else return;
    event.preventDefault();
  });
  scope.measure(node, (room) => {
    [width, height] = [room, node.clientHeight];
    if (whole) fit(null);
    else redraw();
  });
  scope.watch(["palette"], redraw);

  return {
    node,
    fit,
    /** Show words: [{word, x, y}]. */
    show: (some) => {
      points = some;
      canvas.setAttribute("aria-label", `Map of ${some.length} words. Arrow keys pan, plus and minus zoom; use the search field to find a word.`);
      fit(null);
    },
    /** Mark a word (null: none) and its neighbors, joined by lines; one that is not `known` is only a guess. */
    select: (word, near, { known = true } = {}) => {
      marked = new Map([...near.map((one) => [one, "near"]), ...(word === null ? [] : [[word, known ? "chosen" : "guess"]])]);
      lines = near.map((one) => [word, one]);
      redraw();
    },
  };
}

/** Place labels where there is room: right of their points, else left, above or below. */
function named(points, width, height) {
  const across = Math.ceil(width / BUCKET) + 1;
  const taken = Array.from({ length: across * (Math.ceil(height / BUCKET) + 1) }, () => []);
  /** Whether something holds in every bucket of the map that a box touches. */
  const everywhere = ([x0, y0, x1, y1], holds) => {
    for (let i = Math.max(0, Math.floor(x0 / BUCKET)); i <= x1 / BUCKET; i++) {
      for (let j = Math.max(0, Math.floor(y0 / BUCKET)); j <= y1 / BUCKET; j++) if (taken[j * across + i] !== undefined && !holds(taken[j * across + i])) return false;
    }
    return true;
  };
  const apart = (one, other) => one[0] >= other[2] || other[0] >= one[2] || one[1] >= other[3] || other[1] >= one[3];
  const free = (box) => everywhere(box, (others) => others.every((other) => apart(box, other)));
  const take = (box) => everywhere(box, (others) => others.push(box));
  take([width - 150, 0, width, 48]); // the buttons
  for (const { at: [x, y], kind } of points) if (kind !== "plain") take([x - 5, y - 5, x + 5, y + 5]);
  const names = [];
  for (const { word, at: [px, py], kind } of points) {
    if (names.length >= MAX_NAMES) break;
    const text = clip(word, 18);
    const [wide, high, gap] = [textWidth(text, font(kind)) + 4, SIZES[kind] * 1.2, radius(kind) + 3];
    const boxOf = ([x, y]) => [x - 1, y - high / 2, x + wide, y + high / 2];
    const fits = [[px + gap, py], [px - gap - wide, py], [px - wide / 2, py - high / 2 - gap], [px - wide / 2, py + high / 2 + gap]].find((corner) => {
      const box = boxOf(corner);
      return box[0] >= 0 && box[2] <= width && box[1] >= 0 && box[3] <= height && free(box);
    });
    if (fits === undefined) continue;
    take(boxOf(fits));
    names.push({ text, kind, x: fits[0], y: fits[1] });
  }
  return names;
}

function font(kind) {
  return fontOf(SIZES[kind], kind === "chosen" ? 700 : 500);
}

function radius(kind) {
  return { chosen: 5, guess: 5, near: 4, hovered: 4 }[kind] ?? 2.2;
}

function extent(numbers) {
  const [low, high] = [numbers.reduce((a, b) => Math.min(a, b)), numbers.reduce((a, b) => Math.max(a, b))];
  return high - low > 1e-9 ? [low, high] : [low - 1, high + 1];
}
