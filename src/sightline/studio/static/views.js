// The views there are, in the order of the header, and the models that each is for.

import { hasRuns } from "./runs_offered.js";

const asked = (path) => ({ endpoint }) => endpoint === `POST ${path}`;

export const views = [
  { name: "watch", title: "Watch", fits: () => true },
  { name: "walk", title: "Walk through", fits: () => true },
  { name: "write", title: "Write", fits: asked("/v1/completions") },
  { name: "chat", title: "Chat", fits: asked("/v1/chat/completions") },
  { name: "fill", title: "Fill", fits: asked("/fill") },
  { name: "classify", title: "Classify", fits: asked("/classify") },
  { name: "positions", title: "Positions", fits: () => true },
  { name: "words", title: "Words", fits: () => true },
  { name: "runs", title: "Runs", fits: () => hasRuns },
];

/** Return the views for a model. */
export function viewsFor(model) {
  return views.filter(({ fits }) => fits(model));
}
