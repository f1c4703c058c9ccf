// What the address remembers of the pictures: the chosen heads, those that are silent, the step, the unit, the picture.

/** Read what the address says, as far as it makes sense for this trace. */
export function fromPlace(place, trace) {
  const state = {};
  const heads = headsIn(place.get("heads")).filter((head) => isThere(trace, head));
  if (new Set(heads.map(({ name }) => trace.attention(name).kind)).size === 1) state.heads = heads;
  const step = Number(place.get("step")) - 1;
  if (Number.isInteger(step) && step >= 0 && step < trace.steps.length) state.step = step;
  if (["token", "word"].includes(place.get("unit"))) state.unit = place.get("unit");
  if (["lines", "matrix"].includes(place.get("picture"))) state.picture = place.get("picture");
  return state;
}

/** Keep the address up to date; return a function that ends this. */
export function remember(place, store) {
  let timer = null;
  const write = () => {
    const { heads, step, unit, picture, knocked } = store.state;
    place.set({ heads: written(heads), step: step + 1, unit, picture, without: written(knocked.without) || null });
  };
  const stop = store.watch(["heads", "step", "unit", "picture", "knocked"], () => {
    clearTimeout(timer);
    timer = setTimeout(write, 200); // browsers ration such changes
  });
  return () => {
    stop();
    clearTimeout(timer);
  };
}

/** Read heads as they are written: `decoder.1.cross_attention.0,…`. */
export function headsIn(text) {
  return (text ?? "").split(",").filter(Boolean).map((one) => {
    const cut = one.lastIndexOf(".");
    return { name: one.slice(0, cut), head: Number(one.slice(cut + 1)) };
  });
}

function written(heads) {
  return heads.map(({ name, head }) => `${name}.${head}`).join(",");
}

function isThere(trace, { name, head }) {
  return trace.attention(name) !== undefined && Number.isInteger(head) && head >= 0 && head < trace.nHeads(name);
}
