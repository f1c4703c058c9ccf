// What is being looked at: one object, and whoever wants to hear of changes to some of its entries.

export class Store {
  constructor(state) {
    this.state = state;
    this.listeners = [];
    this.waiting = new Map();
  }

  /** Call back when one of the named entries changes, and once now; return a function that ends this. */
  watch(names, listener) {
    const one = { names: new Set(names), listener, ended: false };
    this.listeners.push(one);
    listener(this.state);
    return () => {
      one.ended = true;
      this.listeners = this.listeners.filter((other) => other !== one);
    };
  }

  /** Change entries; only real changes are told. */
  set(changes) {
    const changed = Object.keys(changes).filter((name) => this.state[name] !== changes[name]);
    if (changed.length === 0) return;
    this.state = { ...this.state, ...changes };
    for (const one of [...this.listeners]) {
      if (!one.ended && changed.some((name) => one.names.has(name))) one.listener(this.state);
    }
  }

  /** Do something before the next frame, of several under one key only the last: to measure or scroll makes a browser
   *  lay out everything at once, which it should do once, after all is drawn. */
  afterwards(key, act) {
    if (this.waiting.size === 0) requestAnimationFrame(() => this.run());
    this.waiting.set(key, act);
  }

  run() {
    const acts = [...this.waiting.values()];
    this.waiting.clear();
    for (const act of acts) act();
  }
}
