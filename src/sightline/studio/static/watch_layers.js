// Long texts: if the trace of all layers is too large, fetch one layer at a time.

import { element, fill } from "/drawing/dom.js";

const TOO_MUCH = /more than the limit/;
const NO_LAYER = /no layer/;
const TOO_LONG = "This text is too long: even the trace of one layer is too large. Use a shorter text.";

/** Create the layer selector: {node, fetchTrace, layer}; `changed` is called when another layer is selected. */
export function oneLayerAtATime(params, changed) {
  const choose = () => {
    layer = Number(input.value);
    changed();
  };
  const input = element("select", { on: { change: choose } });
  const node = element("p", { class: "earlier", hidden: true }, "This text is long: one layer is loaded at a time. ", element("label", { class: "choice" }, "Layer ", input));
  let layer = Math.max(0, Math.floor(Number(params.get("layer") ?? 0))) || 0;
  let long = null; // the request that was too large

  /** Fetch the trace of all layers, or of one. */
  async function fetchTrace(request, fetch) {
    const key = JSON.stringify([request.input, request.max_tokens]);
    try {
      if (key !== long) {
        const trace = await fetch(request);
        [node.hidden, long] = [true, null];
        params.set({ layer: null });
        return trace;
      }
    } catch (error) {
      if (!TOO_MUCH.test(error.message)) throw error;
    }
    try {
      const trace = await fetch({ ...request, layers: [layer] }).catch((error) => {
        if (!NO_LAYER.test(error.message)) throw error;
        layer = 0; // the URL was of another model
        return fetch({ ...request, layers: [layer] });
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
    params.set({ layer });
  }

  return { node, fetchTrace, layer: () => (long === null ? null : layer) };
}
