// The address bar remembers where one is: heads, step, unit and picture. Where there is none (a notebook), nothing does.

/** Read what the address says, as far as it makes sense for this trace. */
export function fromAddress(trace) {
  const wishes = new URLSearchParams(location.hash.slice(1));
  const state = {};
  const heads = (wishes.get("heads") ?? "").split(",").map(headOf).filter((head) => isThere(trace, head));
  const kinds = new Set(heads.map(({ name }) => trace.attention(name).kind));
  if (kinds.size === 1) state.heads = heads;
  const step = Number(wishes.get("step")) - 1;
  if (Number.isInteger(step) && step >= 0 && step < trace.steps.length) state.step = step;
  if (["token", "word"].includes(wishes.get("unit"))) state.unit = wishes.get("unit");
  if (["lines", "matrix"].includes(wishes.get("picture"))) state.picture = wishes.get("picture");
  return state;
}

/** Keep the address up to date; return a function that lets go of what was not written yet. */
export function remember(store) {
  let timer = null;
  const write = () => {
    const { heads, step, unit, picture } = store.state;
    const all = heads.map(({ name, head }) => `${name}.${head}`).join(",");
    history.replaceState(null, "", `#heads=${all}&step=${step + 1}&unit=${unit}&picture=${picture}`);
  };
  const wait = () => {
    clearTimeout(timer);
    if (location.protocol !== "about:") timer = setTimeout(write, 200); // browsers ration such changes
  };
  store.watch(["heads", "step", "unit", "picture"], wait);
  return () => clearTimeout(timer);
}

function headOf(text) {
  const cut = text.lastIndexOf(".");
  return { name: text.slice(0, cut), head: Number(text.slice(cut + 1)) };
}

function isThere(trace, { name, head }) {
  return trace.attention(name) !== undefined && Number.isInteger(head) && head >= 0 && head < trace.nHeads(name);
}
