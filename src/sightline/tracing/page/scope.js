// The lifetime of one view of one trace: everything registered here is removed together.

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
