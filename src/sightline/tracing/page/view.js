// A view is a function (host, store) that draws the store's trace into an element, again for every new trace, and returns
// a function that removes it.

import { element, fill } from "./dom.js";
import { saveButton } from "./export.js";

/**
 * Create a view. `build(trace, scope)` returns {node, data, name}: the drawn element, a function that returns its numbers for
 * the JSON file (null: no save button), and what its files are called, unless that is the name of the view; or null if the
 * trace has nothing to draw.
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
      if (made.data !== null) whole.append(saveButton(made.name ?? name, whole, made.data));
      fill(host, whole);
    });
    return () => {
      stop();
      clear();
    };
  };
}

/** The lifetime of one view of one trace: everything registered here is removed together. */
export class Scope {
  constructor(store) {
    this.store = store;
    this.ends = [];
  }

  get state() {
    return this.store.state;
  }

  set(changes) {
    this.store.set(changes);
  }

  watch(names, listener) {
    this.ends.push(this.store.watch(names, listener));
  }

  /** Run something before the next frame, unless the scope has ended by then. */
  beforeNextFrame(key, act) {
    const { ends } = this;
    this.store.beforeNextFrame(key, () => ends === this.ends && act());
  }

  /** Listen to an event target outside the view. */
  listen(target, name, listener) {
    target.addEventListener(name, listener);
    this.ends.push(() => target.removeEventListener(name, listener));
  }

  /** Call back with the width of an element whenever it changes; 0 when it is hidden. */
  measure(node, act) {
    const observer = new ResizeObserver((entries) => act(Math.floor(entries.at(-1).contentRect.width)));
    observer.observe(node);
    this.ends.push(() => observer.disconnect());
  }

  /** Mount another view, which is removed with this one. */
  mount(view, host) {
    this.ends.push(view(host, this.store));
    return host;
  }

  onEnd(act) {
    this.ends.push(act);
  }

  end() {
    const ends = this.ends.reverse();
    this.ends = [];
    for (const act of ends) act();
  }
}
