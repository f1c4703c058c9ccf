// A store as one view sees it while it draws one trace: all that the view began there ends together.

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

  /** Do something before the next frame, unless this has ended by then. */
  afterwards(key, act) {
    const { ends } = this;
    this.store.afterwards(key, () => ends === this.ends && act());
  }

  /** Listen to something that is not part of the view. */
  listen(target, name, listener) {
    target.addEventListener(name, listener);
    this.ends.push(() => target.removeEventListener(name, listener));
  }

  /** Call back with the width of an element when it has another one, and 0 when it is hidden. */
  measure(node, act) {
    const observer = new ResizeObserver((entries) => act(Math.floor(entries.at(-1).contentRect.width)));
    observer.observe(node);
    this.ends.push(() => observer.disconnect());
  }

  /** Mount another view, which ends with this one. */
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
