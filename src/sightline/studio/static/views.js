// The views there are, in the order of the header, and the models that each is for.

export const views = [
  { name: "watch", title: "Watch", fits: () => true },
];

/** Return the views for a model. */
export function viewsFor(model) {
  return views.filter(({ fits }) => fits(model));
}
