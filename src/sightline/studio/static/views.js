// All views, in the order of the header, and the models that each supports.

import { hasRuns } from "./runs_enabled.js";

const hasEndpoint = (path) => ({ endpoint }) => endpoint === `POST ${path}`;

export const views = [
  { name: "watch", title: "Watch", supports: () => true },
  { name: "walk", title: "Walk through", supports: () => true },
  { name: "write", title: "Write", supports: hasEndpoint("/v1/completions") },
  { name: "chat", title: "Chat", supports: hasEndpoint("/v1/chat/completions") },
  { name: "fill", title: "Fill", supports: hasEndpoint("/fill") },
  { name: "classify", title: "Classify", supports: hasEndpoint("/classify") },
  { name: "positions", title: "Positions", supports: () => true },
  { name: "words", title: "Words", supports: () => true },
  { name: "runs", title: "Runs", supports: () => hasRuns },
];

/** Return the views that support a model. */
export function viewsFor(model) {
  return views.filter(({ supports }) => supports(model));
}
