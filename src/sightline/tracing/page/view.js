// A view is a function (host, store) that draws the store's trace into an element, again for every new trace, and returns
// a function that removes it.

import { element, fill } from "./dom.js";
import { saveButton } from "./save_button.js";
import { Scope } from "./scope.js";

/**
 * Create a view. `build(trace, scope)` returns {node, data}: the drawn element, and a function that returns its numbers for
 * the JSON file (null: no save button); or null if the trace has nothing to draw.
 */
export function view(name, build) {
  return (host, store) => {
    let scope = null;
    const clear = () => {
      scope?.end();
      fill(host);
    };
    const stop = store.watch(["trace"], ({ trace }) => {
      clear();
      scope = new Scope(store);
      const made = build(trace, scope);
      if (made === null) return;
      const whole = element("div", { class: `view ${name}-view` }, made.node);
      if (made.data !== null) whole.append(saveButton(name, whole, made.data));
      fill(host, whole);
    });
    return () => {
      stop();
      clear();
    };
  };
}
