// A long text: where all layers are too much to fetch, one is, and one chooses which.

import { element, fill } from "/drawing/dom.js";

const TOO_MUCH = /more than the limit|no browser likes/;
const NO_LAYER = /no layer/;
const TOO_LONG = "This text is too long for even one layer to be looked at: give a shorter one.";

/** Make the choice: {node, fetched, layer}; `changed` is called when another layer is chosen. */
export function slices(place, changed) {
  const choose = () => {
    layer = Number(input.value);
    changed();
  };
  const input = element("select", { on: { change: choose } });
  const node = element("p", { class: "earlier", hidden: true }, "This text is long: one layer is fetched at a time. ", element("label", { class: "choice" }, "Layer ", input));
  let layer = Math.max(0, Math.floor(Number(place.get("layer") ?? 0))) || 0;
  let long = null; // what was found to be too much

  /** Fetch all layers of what is asked for, or one. */
  async function fetched(asked, fetch) {
    const key = JSON.stringify([asked.input, asked.max_tokens]);
    try {
      if (key !== long) {
        const trace = await fetch(asked);
        [node.hidden, long] = [true, null];
        place.set({ layer: null });
        return trace;
      }
    } catch (error) {
      if (!TOO_MUCH.test(error.message)) throw error;
    }
    try {
      const trace = await fetch({ ...asked, layers: [layer] }).catch((error) => {
        if (!NO_LAYER.test(error.message)) throw error;
        layer = 0; // the address was another model's
        return fetch({ ...asked, layers: [layer] });
      });
      long = key;
      offer(trace.model);
      return trace;
    } catch (error) {
      throw TOO_MUCH.test(error.message) ? new Error(TOO_LONG) : error;
    }
  }

  function offer({ n_layers: all, n_encoder_layers: read, n_decoder_layers: written }) {
    const count = all ?? Math.min(read, written);
    if (input.options.length !== count) fill(input, ...Array.from({ length: count }, (_, at) => element("option", { value: at }, at)));
    input.value = layer;
    node.hidden = false;
    place.set({ layer });
  }

  return { node, fetched, layer: () => (long === null ? null : layer) };
}
