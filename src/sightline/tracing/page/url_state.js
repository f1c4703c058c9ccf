// The state in the URL: selected heads, step, unit and picture. A notebook frame has no URL, so nothing is kept there.

/** Return the state in the URL; entries that do not fit this trace are ignored. */
export function stateFromUrl(trace) {
  const params = new URLSearchParams(location.hash.slice(1));
  const state = {};
  const heads = (params.get("heads") ?? "").split(",").map(parseHead).filter((head) => exists(trace, head));
  const kinds = new Set(heads.map(({ name }) => trace.attention(name).kind));
  if (kinds.size === 1) state.heads = heads;
  const step = Number(params.get("step")) - 1;
  if (Number.isInteger(step) && step >= 0 && step < trace.steps.length) state.step = step;
  if (["token", "word"].includes(params.get("unit"))) state.unit = params.get("unit");
  if (["lines", "matrix"].includes(params.get("picture"))) state.picture = params.get("picture");
  return state;
}

/** Keep the URL up to date; return a function that cancels a pending update. */
export function syncUrl(store) {
  let timer = null;
  const write = () => {
    const { heads, step, unit, picture } = store.state;
    const all = heads.map(({ name, head }) => `${name}.${head}`).join(",");
    history.replaceState(null, "", `#heads=${all}&step=${step + 1}&unit=${unit}&picture=${picture}`);
  };
  const wait = () => {
    clearTimeout(timer);
    if (location.protocol !== "about:") timer = setTimeout(write, 200); // browsers limit the rate of history updates
  };
  store.watch(["heads", "step", "unit", "picture"], wait);
  return () => clearTimeout(timer);
}

function parseHead(text) {
  const cut = text.lastIndexOf(".");
  return { name: text.slice(0, cut), head: Number(text.slice(cut + 1)) };
}

function exists(trace, { name, head }) {
  return trace.attention(name) !== undefined && Number.isInteger(head) && head >= 0 && head < trace.nHeads(name);
}
