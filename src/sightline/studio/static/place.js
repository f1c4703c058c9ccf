// The address remembers where one is: `#/watch?model=demo&text=…`. A link therefore restores any view.

/** Read the address: the name of a view, and what it remembers. */
export function current() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: path, wishes: new URLSearchParams(query) };
}

/** Return the address of a view. */
export function link(view, wishes) {
  const query = String(new URLSearchParams(wishes));
  return `#/${view}${query ? `?${query}` : ""}`;
}

/** Return what one view has of the address: `get(name)` and `set({name: value})`, null forgetting; `told` hears of changes. */
export function placeOf(view, told = () => {}) {
  const here = () => current().view === view;
  return {
    get: (name) => (here() ? current().wishes.get(name) : null),
    set: (changes) => {
      if (!here()) return;
      const { wishes } = current();
      for (const [name, value] of Object.entries(changes)) {
        if (value === null || value === undefined) wishes.delete(name);
        else wishes.set(name, value);
      }
      const address = link(view, wishes);
      if (address === location.hash) return; // browsers ration such changes
      history.replaceState(null, "", address);
      told();
    },
  };
}
