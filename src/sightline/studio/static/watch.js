// Watch: a sentence goes in, and every head of every layer can be seen at every step of what comes out.

import { element, fill } from "/drawing/dom.js";
import { lookAt, show } from "/drawing/looking.js";
import { readTrace } from "/drawing/reading.js";
import { bench } from "./watch_bench.js";
import { asking } from "./watch_form.js";
import { bodiesFor, byAttention } from "./watch_bodies.js";
import { slices } from "./watch_slices.js";
import { fromPlace, headsIn, remember } from "./watch_place.js";

const styles = element("link", { rel: "stylesheet", href: "/studio/watch.css" });
const LONGEST_FILM = 40; // steps that play by themselves

/** Draw the view into an element; return a function that removes it. */
export function mount(host, app) {
  const seat = element("div", { class: "watch", "aria-busy": "true" });
  const form = asking(app.model, app.place, () => look({ plays: true }));
  const seen = { whole: null, wishes: null, store: null, ends: [] };
  let request = new AbortController();
  document.head.append(styles);
  const sliced = slices(app.place, () => look({ without: seen.store?.state.knocked.without ?? headsIn(app.place.get("without")) }));
  fill(host, form.node, sliced.node, seat);

  const read = async (body, signal) => readTrace(await app.askBytes("/trace", body, { signal }));
  const fetched = (body, signal) => sliced.fetched(body, (slice) => read(slice, signal));

  /** Ask for what the form says, without some heads; what was asked before is let go of. */
  async function look({ without = [], plays = false, measured = app.place.get("worth") === "1" } = {}) {
    request.abort();
    const { signal } = (request = new AbortController());
    const wishes = form.wishes();
    const bodies = bodiesFor(app.model, wishes, measured);
    const asked = () => JSON.stringify([bodies.whole, sliced.layer()]);
    seat.ariaBusy = "true";
    form.problem("");
    app.place.set({ ...wishes, worth: measured ? 1 : null });
    try {
      const kept = seen.whole !== null && seen.wishes === asked();
      const whole = kept ? seen.whole : await fetched(bodies.whole, signal);
      const [trace, again] = without.length === 0 ? [whole, null] : await Promise.all([
        fetched(bodies.without(byAttention(without)), signal),
        read(bodies.again(whole, byAttention(without)), signal),
      ]);
      if (signal.aborted) return;
      Object.assign(seen, { whole, wishes: asked() });
      draw(trace, { without, again, whole }, { plays, kept });
    } catch (error) {
      if (error.name === "AbortError") return;
      form.problem(error.message);
    }
    if (!signal.aborted) seat.ariaBusy = "false";
  }

  function draw(trace, knocked, { plays, kept }) {
    const { store } = seen;
    if (store === null) return open(trace, knocked);
    const { step } = store.state;
    store.set({ knocked });
    show(store, trace);
    if (kept) store.set({ step: Math.max(0, Math.min(step, trace.steps.length - 1)) });
    const moves = plays && trace.steps.length <= LONGEST_FILM && !matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (moves && trace.steps.length > 1) store.set({ playing: true });
  }

  function open(trace, knocked) {
    const store = lookAt(trace, { ...fromPlace(app.place, trace), knocked });
    const acts = { knock: (without) => look({ without }), measure: () => look({ without: store.state.knocked.without, measured: true }) };
    Object.assign(seen, { store, ends: [app.themed(store), bench(seat, store, acts), remember(app.place, store)] });
  }

  look({ without: headsIn(app.place.get("without")) });
  return () => {
    request.abort();
    for (const end of seen.ends) end();
    styles.remove();
    fill(host);
  };
}
