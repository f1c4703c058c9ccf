// Whose look is shown: the token that is pointed at or pinned, else the one that the current step writes.

import { exact } from "./numbers.js";

/** Return {weights, row, column}: the units of the chosen heads' matrix that are lit; row or column is null. */
export function gazeOf(trace, state) {
  const { heads, unit, pointed, pinned, step } = state;
  const [rowPassage, columnPassage] = trace.axes(heads[0].name);
  const weights = trace.once(`mean ${unit} ${JSON.stringify(heads)}`, () => trace.mean(heads, unit));
  const token = pointed ?? pinned;
  const within = (passage) => {
    const place = trace.placeIn(passage, token);
    return place === null ? null : trace.unitOf(passage, place, unit);
  };
  const row = token === null ? rowOfStep(trace, state, rowPassage) : within(rowPassage);
  const column = token !== null && row === null ? within(columnPassage) : null;
  return { weights, row, column, rowPassage, columnPassage, step };
}

/** Return how much each unit of a passage is looked at (or looks, where a column is lit); null where that says nothing. */
export function shares(gaze, passage) {
  const { weights, row, column, rowPassage, columnPassage } = gaze;
  if (row !== null && passage === columnPassage) {
    return weights.data.subarray(row * weights.columns, (row + 1) * weights.columns);
  }
  if (column !== null && passage === rowPassage) {
    return Float32Array.from({ length: weights.rows }, (_, r) => weights.data[r * weights.columns + column]);
  }
  return null;
}

/** Return the weights of the chosen heads with the texts at their rows and columns, to be saved. */
export function numbersOf(trace, state) {
  const { weights, rowPassage, columnPassage } = gazeOf(trace, state);
  const texts = (passage) => trace.units(passage, state.unit).map(({ text }) => text);
  const rows = Array.from({ length: weights.rows }, (_, r) => Array.from(weights.data.subarray(r * weights.columns, (r + 1) * weights.columns), exact));
  return { heads: state.heads.map((head) => trace.title(head)), unit: state.unit, rows: texts(rowPassage), columns: texts(columnPassage), weights: rows };
}

function rowOfStep(trace, { heads, unit, step }, rowPassage) {
  const row = trace.rowOfStep(heads[0].name, step);
  return row === null ? null : trace.unitOf(rowPassage, row, unit);
}
