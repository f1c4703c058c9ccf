// Whose look is shown: the token that is pointed at or pinned, else the one that the current step writes.

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

function rowOfStep(trace, { heads, unit, step }, rowPassage) {
  const row = trace.rowOfStep(heads[0].name, step);
  return row === null ? null : trace.unitOf(rowPassage, row, unit);
}
