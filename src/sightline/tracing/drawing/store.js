// What is being looked at: one object, and whoever wants to hear of changes to some of its entries.

export class Store {
  constructor(state) {
    this.state = state;
    this.listeners = [];
  }

  /** Call back when one of the named entries changes, and once now. */
  watch(names, listener) {
    this.listeners.push({ names: new Set(names), listener });
    listener(this.state);
  }

  /** Change entries; only real changes are told. */
  set(changes) {
    const changed = Object.keys(changes).filter((name) => this.state[name] !== changes[name]);
    if (changed.length === 0) return;
    this.state = { ...this.state, ...changes };
    for (const { names, listener } of this.listeners) {
      if (changed.some((name) => names.has(name))) listener(this.state);
    }
  }
}
