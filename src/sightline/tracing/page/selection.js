// Which row or column of the attention matrix is highlighted: that of the hovered or pinned token, else of the current step.

import { exact } from "./numbers.js";

/** Return {weights, row, column}: the weights of the selected heads and the highlighted row or column; the other is null. */
export function selectionOf(trace, state) {
  const { heads, unit, hovered, pinned, step } = state;
  const [rowSequence, columnSequence] = trace.axes(heads[0].name);
  const weights = trace.once(`mean ${unit} ${JSON.stringify(heads)}`, () => trace.mean(heads, unit));
  const token = hovered ?? pinned;
  const within = (sequence) => {
    const index = trace.indexIn(sequence, token);
    return index === null ? null : trace.unitOf(sequence, index, unit);
  };
  const row = token === null ? rowOfStep(trace, state, rowSequence) : within(rowSequence);
  const column = token !== null && row === null ? within(columnSequence) : null;
  return { weights, row, column, rowSequence, columnSequence, step };
}

/** Return the attention weight of each unit of a sequence in the highlighted row or column; null if there is none. */
export function shares(selection, sequence) {
  const { weights, row, column, rowSequence, columnSequence } = selection;
  if (row !== null && sequence === columnSequence) {
    return weights.data.subarray(row * weights.columns, (row + 1) * weights.columns);
  }
  if (column !== null && sequence === rowSequence) {
    return Float32Array.from({ length: weights.rows }, (_, r) => weights.data[r * weights.columns + column]);
  }
  return null;
}

/** Return the weights of the selected heads with the texts of their rows and columns, for the JSON file. */
export function selectedWeights(trace, state) {
  const { weights, rowSequence, columnSequence } = selectionOf(trace, state);
  const texts = (sequence) => trace.units(sequence, state.unit).map(({ text }) => text);
  const rows = Array.from({ length: weights.rows }, (_, r) => Array.from(weights.data.subarray(r * weights.columns, (r + 1) * weights.columns), exact));
  return { heads: state.heads.map((head) => trace.title(head)), unit: state.unit, rows: texts(rowSequence), columns: texts(columnSequence), weights: rows };
}

function rowOfStep(trace, { heads, unit, step }, rowSequence) {
  const row = trace.rowOfStep(heads[0].name, step);
  return row === null ? null : trace.unitOf(rowSequence, row, unit);
}
