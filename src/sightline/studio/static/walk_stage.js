// The section of one stage: the panels, an explanation, the formula, and the calculation with the actual numbers.

import { element, fill } from "/drawing/dom.js";
import { exact } from "/drawing/numbers.js";
import { saveButton } from "/drawing/save_button.js";
import { panel } from "./walk_panel.js";

/** Create the section of a stage; `draw(context, palette, room, handlers)` fills it. */
export function stageSection(stage, number, onToggle) {
  const picture = element("div", { class: "panels" });
  const lines = element("div", { class: "lines" });
  const more = element("p", { class: "explanation" });
  const tables = element("div");
  const sum = element("details", { class: "sum" }, element("summary", {}, "Calculation"), lines,
    element("p", { class: "code note" }, "Code: ", ...stage.code.flatMap(([name, file], at) => [at === 0 ? "" : ", ", element("code", {}, name), ` (${file})`])));
  const numbers = element("details", { class: "numbers" }, element("summary", {}, "Values as a table"), tables);
  const problem = element("p", { class: "problem", role: "alert" });
  const drawn = { panels: [], specs: [], data: () => ({ stage: stage.id, lines: [...lines.children].map(({ textContent }) => textContent), panels: drawn.specs.map(plain) }) };
  const title = element("h2", { id: `stage-${number}` }, element("span", { class: "number" }, `${number + 1} `), stage.title);
  const left = element("div", { class: "left" }, picture, numbers);
  const node = element("section", { class: "stage", "data-stage": stage.id, "aria-labelledby": `stage-${number}` }, title, element("div", { class: "two" },
    left,
    element("div", { class: "stage-text" }, element("p", {}, stage.explanation), more, element("p", { class: "formula" }, stage.formula), sum, problem, saveButton(`walk-${stage.point}`, picture, drawn.data))));
  const kept = new WeakMap();
  const tabled = () => numbers.open && fill(tables, ...drawn.panels.filter((one) => one.table).map((one) => one.table()));
  numbers.addEventListener("toggle", tabled);
  sum.addEventListener("toggle", () => onToggle(sum.open));

  const draw = (c, palette, room, handlers) => {
    const given = stage.show(c);
    const full = given.filter((part) => part.matrix?.rows > 1 && part.share === undefined).length;
    const high = [260, 260, 215, 160][full] ?? 130; // so that a stage fits on a screen
    const parts = given.map((part, at) => {
      const alone = given[at - 1]?.matrix !== undefined && given[at - 1].share === undefined; // it fills the line
      if (typeof part === "string") return element("span", { class: alone ? "operator alone" : "operator", "aria-hidden": "true" }, alone && part === "→" ? "↓" : part);
      return part instanceof Element ? part : panel(part, room, high, palette, { pick: (row, column) => handlers.pick(part, row, column), point: handlers.point, kept });
    });
    const focused = drawn.panels.findIndex((one) => one.contains(document.activeElement));
    drawn.specs = given.filter((part) => part.matrix !== undefined);
    drawn.panels = parts;
    more.textContent = stage.more?.(c) ?? "";
    fill(picture, ...parts);
    if (focused >= 0) parts[focused]?.querySelector(".cells, [aria-pressed=true]")?.focus({ preventScroll: true });
    numbers.hidden = drawn.specs.length === 0;
    node.classList.add("drawn");
    tabled();
  };
  return {
    node, draw,
    fail: (message) => (problem.textContent = message),
    sumLines: (c) => fill(lines, ...stage.sum(c).map((line) => element("p", {}, line))),
    point: (sequence, index) => drawn.panels.forEach((one) => one.point?.(sequence, index)),
    get open() { return sum.open; },
    set open(open) { sum.open = open; },
  };
}

/** A panel for the JSON file. */
function plain({ title, matrix: { rows, columns, data }, rowNames = null, columnNames = null, row = null, column = null }) {
  const numbers = Array.from({ length: rows }, (_, r) => Array.from(data.subarray(r * columns, (r + 1) * columns), exact));
  return { title, rows: rowNames, columns: columnNames, chosen: [row, column], numbers };
}
