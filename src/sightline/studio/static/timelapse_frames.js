// The frames of a time-lapse: what each snapshot of a run does with a sentence, asked one after the other.

import { readTrace } from "/drawing/reading.js";

/** Whether the model of a run writes a text, which others can be shown with. */
export function writes({ task }) {
  return task !== "masked-language-model" && task !== "classification";
}

/**
 * Ask every model of a run, the last one first: all are shown with its answer, so that they can be compared. Yields the
 * frames whenever one more is complete: {step, kept, own, given}, `own` being what the model writes by itself.
 */
export async function* framesOf(app, card, question, signal) {
  const frames = card.snapshots.map((step) => ({ step, kept: false }));
  if (card.kept) frames.push({ step: card.best_step, kept: true });
  const asked = async ({ step, kept }, more) =>
    readTrace(await app.askBytes(`/studio-api/runs/${card.id}/trace`, { ...question, ...more, step: kept ? null : step }, { signal }));
  const last = frames.at(-1);
  for (const frame of [last, ...frames.slice(0, -1)]) {
    frame.own = await asked(frame, {});
    frame.given = writes(card) ? await asked(frame, { target: last.own.target.text }) : frame.own;
    yield frames;
  }
}

/** What a model wrote; of one that does not write, what it chose. */
export function written({ target, steps }) {
  return target.tokens.length > 0 ? target.text : steps.map(({ candidates, chosen }) => candidates[chosen].text.trim()).join(" · ");
}

/** The tokens of the last model's answer, or its choices. */
export function answerOf(frames) {
  return frames.at(-1).given.steps.map(({ candidates, chosen }) => candidates[chosen]);
}

/** The probability a frame gave to a token of the answer: null where it is not even among its candidates. */
export function likely({ given: { steps, forced } }, token, place) {
  if (forced) return Math.exp(steps[place].log_probability);
  return steps[place].candidates.find(({ id, text }) => id === token.id && text === token.text)?.probability ?? null;
}
