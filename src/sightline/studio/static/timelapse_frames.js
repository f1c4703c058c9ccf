// The frames of a time-lapse: the traces of one text at each snapshot of a run, fetched one after the other.

import { readTrace } from "/drawing/read_trace.js";

/** Whether the model of a run generates text, which can be forced on the other snapshots. */
export function generates({ task }) {
  return task !== "masked-language-model" && task !== "classification";
}

/**
 * Trace every model of a run, the last one first: its output is forced on all others, so that they can be compared. Yields
 * the frames whenever one more is complete: {step, best, own, given}; `own` has the model's own output, `given` the forced one.
 */
export async function* framesOf(app, card, question, signal) {
  const frames = card.snapshots.map((step) => ({ step, best: false }));
  if (card.has_best_model) frames.push({ step: card.best_step, best: true });
  const fetchTrace = async ({ step, best }, more) =>
    readTrace(await app.fetchBytes(`/studio-api/runs/${card.id}/trace`, { ...question, ...more, step: best ? null : step }, { signal }));
  const last = frames.at(-1);
  for (const frame of [last, ...frames.slice(0, -1)]) {
    frame.own = await fetchTrace(frame, {});
    frame.given = generates(card) ? await fetchTrace(frame, { target: last.own.target.text }) : frame.own;
    yield frames;
  }
}

/** The output of a model: its text, or its predictions. */
export function outputOf({ target, steps }) {
  return target.tokens.length > 0 ? target.text : steps.map(({ candidates, chosen }) => candidates[chosen].text.trim()).join(" · ");
}

/** The tokens of the last model's output, or its predictions. */
export function targetTokens(frames) {
  return frames.at(-1).given.steps.map(({ candidates, chosen }) => candidates[chosen]);
}

/** The probability of a token of the output at a frame; null if it is not among the candidates. */
export function probabilityOf({ given: { steps, forced } }, token, index) {
  if (forced) return Math.exp(steps[index].log_probability);
  return steps[index].candidates.find(({ id, text }) => id === token.id && text === token.text)?.probability ?? null;
}
