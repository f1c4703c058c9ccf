// The table of all runs: selection, state, score, steps, task.

import { element, fill } from "/drawing/dom.js";
import { groupDigits, short } from "/drawing/numbers.js";
import { swatch, titleOf } from "./curves_drawing.js";

const STATES = { ended: "ended", training: "● training", stalled: "stalled" };

/** Create the table of all runs, with a checkbox for each. */
export function runsTable(store, choose) {
  const head = ["Run", "State", "Score", "Steps", "Task", "Started"].map((name) => element("th", { scope: "col" }, name));
  const body = element("tbody");
  let before = "";
  store.watch(["cards", "drawn"], ({ cards, drawn }) => {
    if (!cards?.length) return fill(body, element("tr", {}, element("td", { colspan: 6, class: "waiting" }, cards === null ? "…" : "No runs in this folder yet. New runs appear here automatically.")));
    const rows = cards.map((card) => [card, drawn.find(({ id }) => id === card.id)]);
    const now = JSON.stringify(rows.map(([card, run]) => [card.id, card.state, run?.mark, run?.records.at(-1)?.step]));
    if (now === before) return;
    before = now;
    const focused = body.contains(document.activeElement) ? document.activeElement.value : null;
    fill(body, ...rows.map(([card, run]) => row(card, run, () => choose(run ? drawn.filter(({ id }) => id !== card.id).map(({ id }) => id) : [...drawn.map(({ id }) => id), card.id]))));
    body.querySelector(`input[value="${focused}"]`)?.focus();
  });
  return element("table", { class: "runs-table" }, element("thead", {}, element("tr", {}, ...head)), body);
}

function row(card, run, change) {
  const box = element("input", { type: "checkbox", value: card.id, checked: run !== undefined, on: { change } });
  const scores = Object.entries(scoresOf(card, run)).filter(([name, value]) => typeof value === "number" && name !== "validation_loss");
  const name = element("th", { scope: "row" }, element("label", {}, box, run ? swatch(run) : element("span", { class: "no-swatch" }), card.name));
  const steps = run?.records.at(-1)?.step;
  const score = scores.slice(0, 2).map(([one, value]) => `${titleOf(one)} ${short(value)}`).join(", ");
  return element("tr", {}, name, element("td", { class: card.state }, STATES[card.state]), ...[score, steps === undefined ? "" : groupDigits(steps), card.task, card.began.slice(0, 16)].map((text) => element("td", {}, text)));
}

/** The final scores of a run, or those of its last validation. */
function scoresOf(card, run) {
  if (Object.keys(card.scores).length > 0) return card.scores;
  const { step, best_step: best, ...last } = run?.records.findLast((record) => typeof record.validation_loss === "number") ?? {};
  return last;
}
