// The state of the views: one object, with listeners to changes of its entries.

export class Store {
  constructor(state) {
    this.state = state;
    this.listeners = [];
    this.waiting = new Map();
  }

  /** Call back when one of the named entries changes, and once now; return a function that unsubscribes. */
  watch(names, listener) {
    const one = { names: new Set(names), listener, removed: false };
    this.listeners.push(one);
    listener(this.state);
    return () => {
      one.removed = true;
      this.listeners = this.listeners.filter((other) => other !== one);
    };
  }

  /** Change entries; listeners are only called for values that differ. */
  set(changes) {
    const changed = Object.keys(changes).filter((name) => this.state[name] !== changes[name]);
    if (changed.length === 0) return;
    this.state = { ...this.state, ...changes };
    for (const one of [...this.listeners]) {
      if (!one.removed && changed.some((name) => one.names.has(name))) one.listener(this.state);
    }
  }

  /** Run something before the next frame; of several with the same key, only the last. Measuring and scrolling force a
   *  layout, which should happen once, after everything is drawn. */
  beforeNextFrame(key, act) {
    if (this.waiting.size === 0) requestAnimationFrame(() => this.run());
    this.waiting.set(key, act);
  }

  run() {
    const acts = [...this.waiting.values()];
    this.waiting.clear();
    for (const act of acts) act();
  }
}
