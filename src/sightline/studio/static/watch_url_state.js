// The state of Watch in the URL: selected heads, ablated heads, step, unit, picture.

/** Return the state in the URL; entries that do not fit this trace are ignored. */
export function stateFromUrl(params, trace) {
  const state = {};
  const heads = parseHeads(params.get("heads")).filter((head) => exists(trace, head));
  if (new Set(heads.map(({ name }) => trace.attention(name).kind)).size === 1) state.heads = heads;
  const step = Number(params.get("step")) - 1;
  if (Number.isInteger(step) && step >= 0 && step < trace.steps.length) state.step = step;
  if (["token", "word"].includes(params.get("unit"))) state.unit = params.get("unit");
  if (["lines", "matrix"].includes(params.get("picture"))) state.picture = params.get("picture");
  return state;
}

/** Keep the URL up to date; return a function that stops this. */
export function syncUrl(params, store) {
  let timer = null;
  const write = () => {
    const { heads, step, unit, picture, ablation } = store.state;
    params.set({ heads: formatHeads(heads), step: step + 1, unit, picture, ablated: formatHeads(ablation.ablated) || null });
  };
  const stop = store.watch(["heads", "step", "unit", "picture", "ablation"], () => {
    clearTimeout(timer);
    timer = setTimeout(write, 200); // browsers limit the rate of history updates
  });
  return () => {
    stop();
    clearTimeout(timer);
  };
}

/** Parse heads: `decoder.1.cross_attention.0,…`. */
export function parseHeads(text) {
  return (text ?? "").split(",").filter(Boolean).map((one) => {
    const cut = one.lastIndexOf(".");
    return { name: one.slice(0, cut), head: Number(one.slice(cut + 1)) };
  });
}

function formatHeads(heads) {
  return heads.map(({ name, head }) => `${name}.${head}`).join(",");
}

function exists(trace, { name, head }) {
  return trace.attention(name) !== undefined && Number.isInteger(head) && head >= 0 && head < trace.nHeads(name);
}
