// What every view is: a function (host, store) that draws the store's trace into an element, again for every new trace,
// and returns a function that removes it.

import { element, fill } from "./dom.js";
import { saving } from "./saving.js";
import { Scope } from "./scope.js";

/**
 * Make a view. `build(trace, scope)` returns {node, data}: what is drawn, and a function that returns the numbers in it
 * for the JSON that one saves (null: nothing to save); or null where the trace has nothing that it could draw.
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
      if (made.data !== null) whole.append(saving(name, whole, made.data));
      fill(host, whole);
    });
    return () => {
      stop();
      clear();
    };
  };
}
