// Watch: run the model on a text and show every attention head of every layer at every step of the output.

import { element, fill } from "/drawing/dom.js";
import { createStore, showTrace } from "/drawing/trace_store.js";
import { readTrace } from "/drawing/read_trace.js";
import { layout } from "./watch_layout.js";
import { createForm } from "./watch_form.js";
import { requestsFor, groupByAttention } from "./watch_requests.js";
import { oneLayerAtATime } from "./watch_layers.js";
import { stateFromUrl, parseHeads, syncUrl } from "./watch_url_state.js";

const styles = element("link", { rel: "stylesheet", href: "/studio/watch.css" });
const MAX_AUTOPLAY_STEPS = 40; // longer outputs do not play automatically

/** Draw the view into an element; return a function that removes it. */
export function mount(host, app) {
  const body = element("div", { class: "watch", "aria-busy": "true" });
  const form = createForm(app.model, app.params, () => load({ plays: true }));
  const shown = { baseline: null, request: null, store: null, ends: [] };
  let pending = new AbortController();
  document.head.append(styles);
  const layers = oneLayerAtATime(app.params, () => load({ ablated: shown.store?.state.ablation.ablated ?? parseHeads(app.params.get("ablated")) }));
  fill(host, form.node, layers.node, body);

  const read = async (body, signal) => readTrace(await app.fetchBytes("/trace", body, { signal }));
  const fetchTrace = (body, signal) => layers.fetchTrace(body, (slice) => read(slice, signal));

  /** Load the trace of the form's input, with some heads ablated; a pending request is canceled. */
  async function load({ ablated = [], plays = false, measured = app.params.get("ablation") === "1" } = {}) {
    pending.abort();
    const { signal } = (pending = new AbortController());
    const values = form.values();
    const requests = requestsFor(app.model, values, measured);
    const request = () => JSON.stringify([requests.baseline, layers.layer()]);
    body.ariaBusy = "true";
    form.problem("");
    app.params.set({ ...values, ablation: measured ? 1 : null });
    try {
      const kept = shown.baseline !== null && shown.request === request();
      const baseline = kept ? shown.baseline : await fetchTrace(requests.baseline, signal);
      const [trace, forced] = ablated.length === 0 ? [baseline, null] : await Promise.all([
        fetchTrace(requests.ablated(groupByAttention(ablated)), signal),
        read(requests.forced(baseline, groupByAttention(ablated)), signal),
      ]);
      if (signal.aborted) return;
      Object.assign(shown, { baseline, request: request() });
      draw(trace, { ablated, forced, baseline }, { plays, kept });
    } catch (error) {
      if (error.name === "AbortError") return;
      form.problem(error.message);
    }
    if (!signal.aborted) body.ariaBusy = "false";
  }

  function draw(trace, ablation, { plays, kept }) {
    const { store } = shown;
    if (store === null) return open(trace, ablation);
    const { step } = store.state;
    store.set({ ablation });
    showTrace(store, trace);
    if (kept) store.set({ step: Math.max(0, Math.min(step, trace.steps.length - 1)) });
    const moves = plays && trace.steps.length <= MAX_AUTOPLAY_STEPS && !matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (moves && trace.steps.length > 1) store.set({ playing: true });
  }

  function open(trace, ablation) {
    const store = createStore(trace, { ...stateFromUrl(app.params, trace), ablation });
    const acts = { ablate: (ablated) => load({ ablated }), measure: () => load({ ablated: store.state.ablation.ablated, measured: true }) };
    Object.assign(shown, { store, ends: [app.themed(store), layout(body, store, acts), syncUrl(app.params, store)] });
  }

  load({ ablated: parseHeads(app.params.get("ablated")) });
  return () => {
    pending.abort();
    for (const end of shown.ends) end();
    styles.remove();
    fill(host);
  };
}
