// The state in the URL: `#/watch?model=demo&text=…`, so that a link restores any view.

/** Parse the URL: the name of the view and its parameters. */
export function current() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: path, params: new URLSearchParams(query) };
}

/** Return the URL of a view. */
export function link(view, params) {
  const query = String(new URLSearchParams(params));
  return `#/${view}${query ? `?${query}` : ""}`;
}

/**
 * Return the URL parameters of a view: `get(name)` and `set({name: value})`, where null removes; `go` does the same for what a user
 * selects, with an entry of its own in the history, so that Back returns to what was there before. `onChange` is called after changes.
 */
export function urlParams(view, onChange = () => {}) {
  const here = () => current().view === view;
  const write = (changes, how) => {
    if (!here()) return;
    const { params } = current();
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined) params.delete(name);
      else params.set(name, value);
    }
    const url = link(view, params);
    if (url === location.hash) return; // browsers limit the rate of history updates
    history[how](null, "", url);
    onChange();
  };
  return {
    get: (name) => (here() ? current().params.get(name) : null),
    set: (changes) => write(changes, "replaceState"),
    go: (changes) => write(changes, "pushState"),
  };
}
