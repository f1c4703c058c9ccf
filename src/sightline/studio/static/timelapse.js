// The time-lapse: one sentence through every snapshot of a run, so that one sees attention form and an answer get sure.

import { button, element, fill, section } from "/drawing/dom.js";
import { glance } from "/drawing/glance.js";
import { lines } from "/drawing/lines.js";
import { lookAt, show } from "/drawing/looking.js";
import { matrix } from "/drawing/matrix.js";
import { counted, short } from "/drawing/numbers.js";
import { readTrace } from "/drawing/reading.js";
import { saving } from "/drawing/saving.js";
import { visible } from "/drawing/texts.js";
import { palette } from "/drawing/theme.js";

const PACE = 900;
const EXAMPLES = { translation: "March 14, 2026", "masked-language-model": "The [MASK] dog" };

/** Draw the time-lapse of runs that have snapshots; return a function that removes it. */
export function timelapse(host, app, cards, page) {
  const { place } = app;
  const film = { app, card: cards.find(({ id }) => id === place.get("lapse")) ?? cards[0], frames: [], at: 0, own: place.get("own") !== null, store: null, ends: [], timer: null, asked: null };
  const options = (values, chosen) => values.map(([value, name]) => element("option", { value, selected: value === chosen }, name));
  const run = element("select", { "aria-label": "Run", on: { change: () => begin(film, cards.find(({ id }) => id === run.value)) } }, ...options(cards.map(({ id, name }) => [id, name]), film.card.id));
  const text = element("input", { type: "text", "aria-label": "Sentence", maxlength: 2000, required: true, value: place.get("text") ?? EXAMPLES[film.card.task] ?? "Once" });
  const to = element("select", { "aria-label": "Into which language" });
  const problem = element("p", { class: "problem", role: "alert" });
  const waiting = element("p", { class: "waiting", "aria-live": "polite" });
  const stage = element("div", { hidden: true });
  const form = element("form", { class: "ask", on: { submit: (event) => { event.preventDefault(); ask(film); } } }, run, text, to, button("Show", () => {}, { type: "submit", class: "main" }));
  Object.assign(film, { text, to, problem, waiting, stage, page, ...parts(film) });
  fill(stage, film.stepper, film.output, film.picture, film.sure);
  fill(host, section("timelapse", "Time-lapse", "The same sentence through the model as it was after 0, 1, 2, 4, 8 … steps of its training. One sees attention form, and the answer that the trained model gives become likely.", form, problem, waiting, stage));
  film.offer = (card) => {
    film.card = card;
    fill(to, ...options(card.languages.map((code) => [code, code]), place.get("to") ?? card.languages[1]));
    to.hidden = card.languages.length === 0;
  };
  film.offer(film.card);
  if (place.get("lapse") !== null) ask(film);
  return () => {
    pause(film);
    film.asked?.abort();
    film.ends.forEach((end) => end());
    fill(host);
  };
}

function begin(film, card) {
  film.asked?.abort();
  pause(film);
  film.stage.hidden = true;
  film.waiting.textContent = "";
  film.offer(card);
}

/** The places of the film: what stands still while its frames change. */
function parts(film) {
  const slider = element("input", { type: "range", min: 0, step: 1, "aria-label": "Snapshot", on: { input: () => { pause(film); go(film, Number(slider.value)); } } });
  const label = element("output", { class: "step-label", "aria-live": "polite" });
  const play = button("Play", () => (film.timer === null ? run(film) : pause(film)), { class: "play", title: "Play (space)" });
  const own = element("input", { type: "checkbox", checked: film.own, on: { change: () => { film.own = own.checked; film.app.place.set({ own: film.own ? 1 : null }); go(film, film.at); } } });
  const stepper = element("div", { class: "stepper lapse-stepper", on: { keydown: (event) => keys(film, event) } }, label,
    element("div", { class: "controls" }, button("◀", () => { pause(film); go(film, film.at - 1); }, { "aria-label": "One snapshot back" }), play, button("▶", () => { pause(film); go(film, film.at + 1); }, { "aria-label": "One snapshot on" }), slider),
    element("label", { class: "lapse-own" }, own, " Look at it writing what it would have written, instead of the trained model’s answer"));
  const [asLines, asMatrix, heads, title] = [element("div"), element("div"), element("div"), element("h3")];
  const kind = element("select", { "aria-label": "Picture", on: { change: () => film.store.set({ picture: kind.value }) } }, element("option", { value: "lines" }, "Lines"), element("option", { value: "matrix" }, "Matrix"));
  const picture = element("div", { class: "lapse-picture" },
    element("div", {}, element("div", { class: "bar-row" }, title, kind), asLines, asMatrix),
    element("div", {}, element("h3", {}, "All heads"), heads));
  return { slider, label, play, stepper, output: element("p", { class: "lapse-output" }), picture, sure: element("div"), views: { asLines, asMatrix, heads, title } };
}

/** Ask every snapshot, the kept model first: its answer is what all the others are shown with. */
async function ask(film) {
  const { app, card, text, to, problem, waiting, page } = film;
  film.asked?.abort();
  film.asked = new AbortController();
  const { signal } = film.asked;
  pause(film);
  problem.textContent = "";
  app.place.set({ lapse: card.id, text: text.value, to: to.hidden ? null : to.value });
  const question = { input: text.value, ...(to.hidden ? {} : { to: to.value }) };
  const traced = async (step, target) => readTrace(await app.askBytes(`/studio-api/runs/${card.id}/trace`, { ...question, step, ...(target === null ? {} : { target }) }, { signal }));
  const writes = card.task !== "masked-language-model" && card.task !== "classification";
  const best = () => page.state.drawn.find(({ id }) => id === card.id)?.records.findLast((record) => record.best_step)?.best_step;
  const frames = [...card.snapshots.map((step) => ({ step, name: `Step ${counted(step)}` })), ...(card.kept ? [{ step: null, get name() { return `The kept model${best() ? ` (step ${counted(best())})` : ""}`; } }] : [])];
  try {
    waiting.textContent = "Asking the trained model …";
    const last = frames.at(-1);
    last.own = await traced(last.step, null);
    const target = writes ? last.own.target.text : null;
    const fetched = async (frame) => {
      frame.own ??= await traced(frame.step, null);
      frame.given = target === null ? frame.own : await traced(frame.step, target);
    };
    await fetched(last);
    if (signal.aborted) return;
    Object.assign(film, { frames, final: last.given });
    film.slider.max = String(frames.length - 1);
    film.stage.hidden = false;
    const wished = frames.findIndex(({ step }) => String(step) === app.place.get("snapshot"));
    go(film, frames.length - 1);
    for (const [number, frame] of frames.entries()) {
      waiting.textContent = `Asking snapshot ${number + 1} of ${frames.length} …`;
      if (frame !== last) await fetched(frame);
      if (number === wished || number === film.at) go(film, number);
      sure(film);
    }
    waiting.textContent = "";
  } catch (error) {
    if (signal.aborted) return;
    waiting.textContent = "";
    problem.textContent = error.message;
  }
}

/** Show a frame; one that is still being asked for waits with its number. */
function go(film, wanted) {
  const { frames, slider, label, views } = film;
  if (frames.length === 0) return;
  film.at = Math.max(0, Math.min(frames.length - 1, wanted));
  const frame = frames[film.at];
  slider.value = String(film.at);
  slider.setAttribute("aria-valuetext", frame.name);
  fill(label, `${frame.name} · ${film.at + 1} of ${frames.length}`);
  film.app.place.set({ snapshot: film.at === frames.length - 1 ? null : frame.step });
  const trace = film.own ? frame.own : frame.given;
  if (trace === undefined) return fill(film.output, "…");
  if (film.store === null) {
    film.store = lookAt(trace);
    mount(film, views);
  } else {
    const { step } = film.store.state;
    show(film.store, trace);
    film.store.set({ palette: palette(), step: Math.min(step, Math.max(0, trace.steps.length - 1)) });
  }
  const answer = written(frame.own);
  fill(film.output, "It writes: ", element("b", { dir: "auto" }, answer === "" ? "nothing" : answer), element("span", { class: "note" }, answer === written(film.final) ? " – as the trained model does" : ""));
  sure(film);
}

function mount({ store, ends }, { asLines, asMatrix, heads, title }) {
  ends.push(lines(asLines, store), matrix(asMatrix, store), glance(heads, store));
  ends.push(store.watch(["picture"], ({ picture }) => {
    asLines.hidden = picture !== "lines";
    asMatrix.hidden = picture !== "matrix";
  }));
  ends.push(store.watch(["heads", "trace"], ({ heads: chosen, trace }) => (title.textContent = chosen.map((head) => trace.title(head)).join("; "))));
}

/** What a model wrote; of one that does not write, what it chose. */
function written(trace) {
  return trace.target.text || (trace.target.tokens.length > 0 ? "" : trace.steps.map(({ candidates, chosen }) => candidates[chosen].text.trim()).join(" · "));
}

/** How likely each token of the trained model's answer was at every snapshot: a table, each cell filled as far as it was likely. */
function sure(film) {
  const { frames, final, at } = film;
  const tokens = final.steps.map(({ candidates, chosen }) => candidates[chosen]);
  const cells = (trace) => tokens.map((token, n) => {
    const share = likely(trace?.steps[n], token, trace?.forced);
    return element("td", {}, share === null ? (trace ? "rare" : "") : short(share), share === null ? null : element("span", { class: "share", style: { "--share": String(share) } }));
  });
  const rows = frames.map((frame, number) => element("tr", { class: number === at ? "now" : null, "aria-current": number === at ? "true" : null, on: { click: () => { pause(film); go(film, number); } } },
    element("th", { scope: "row" }, frame.name), ...cells(frame.given), element("td", { class: "wrote", dir: "auto" }, frame.own ? written(frame.own) : "…")));
  const head = tokens.map(({ text }) => element("th", { scope: "col", dir: "auto" }, visible(text)));
  const whole = element("div", { class: "lapse-sure" }, element("h3", {}, "How likely the trained model’s answer was on the way"),
    element("div", { class: "scroller" }, element("table", { class: "lens" }, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Snapshot"), ...head, element("th", { scope: "col" }, "What it wrote by itself"))), element("tbody", {}, ...rows))));
  whole.append(saving("timelapse", whole, () => frames.map((frame) => ({ step: frame.step, wrote: frame.own && written(frame.own), tokens: frame.given && tokens.map((token, n) => ({ text: token.text, probability: likely(frame.given.steps[n], token, frame.given.forced) })) }))));
  fill(film.sure, whole);
}

/** The probability of a token at a step: the step's own where it was given, else that of the candidate it was. */
function likely(step, token, forced) {
  if (step === undefined) return null;
  if (forced) return Math.exp(step.log_probability);
  return step.candidates.find(({ id, text }) => id === token.id && text === token.text)?.probability ?? null;
}

function run(film) {
  if (film.at === film.frames.length - 1) go(film, 0);
  film.play.textContent = "Pause";
  film.timer = setInterval(() => {
    if (film.at === film.frames.length - 1) pause(film);
    else if (film.frames[film.at + 1].given !== undefined) go(film, film.at + 1);
  }, PACE);
}

function pause(film) {
  clearInterval(film.timer);
  film.timer = null;
  film.play.textContent = "Play";
}

function keys(film, event) {
  if (event.target.type === "range" || event.ctrlKey || event.metaKey || event.altKey) return;
  const acts = { ArrowLeft: () => go(film, film.at - 1), ArrowRight: () => go(film, film.at + 1), Home: () => go(film, 0), End: () => go(film, film.frames.length - 1), Escape: () => pause(film) };
  if (acts[event.key] === undefined) return;
  event.preventDefault();
  pause(film);
  acts[event.key]();
}
