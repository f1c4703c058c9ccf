// Watch: a sentence goes in, and every head of every layer can be seen at every step of what comes out.

import { element, fill } from "/drawing/dom.js";

/** Draw the view into an element; return a function that removes it. */
export function mount(host, { model }) {
  fill(host, element("section", {}, model.id));
  return () => fill(host);
}
