// The time-lapse: one sentence through every snapshot of a run, so that one sees attention form and an answer get sure.

import { button, element, fill, section } from "/drawing/dom.js";
import { glance } from "/drawing/glance.js";
import { lines } from "/drawing/lines.js";
import { lookAt, show } from "/drawing/looking.js";
import { matrix } from "/drawing/matrix.js";
import { visible } from "/drawing/texts.js";
import { framesOf, writes, written } from "./timelapse_frames.js";
import { nameOf, odds } from "./timelapse_odds.js";

const PACE = 900;
const EXAMPLES = { translation: "March 14, 2026", "masked-language-model": "The [MASK] dog" };

/** Draw the time-lapse of those runs of the page's store that have snapshots; return a function that removes it. */
export function timelapse(host, app, page) {
  const { place } = app;
  const film = { app, page, frames: [], at: 0, own: place.get("own") !== null, looked: null, ends: [], timer: null, asked: null };
  const run = element("select", { "aria-label": "Run", on: { change: () => choose(film) } });
  const text = element("input", { type: "text", "aria-label": "Sentence", maxlength: 2000, required: true, value: place.get("text") });
  const to = element("select", { "aria-label": "Into which language" });
  const form = element("form", { class: "ask", on: { submit: (event) => { event.preventDefault(); ask(film); } } }, run, text, to, button("Show", () => {}, { type: "submit", class: "main" }));
  const [problem, waiting] = [element("p", { class: "problem", role: "alert" }), element("p", { class: "waiting", "aria-live": "polite" })];
  const stage = element("div", { hidden: true, on: { keydown: (event) => keys(film, event) } });
  Object.assign(film, { run, text, to, problem, waiting, stage, ...parts(film) });
  fill(stage, film.stepper, film.output, film.picture, film.odds);
  film.ends.push(page.watch(["cards"], ({ cards }) => {
    const filmed = (cards ?? []).filter(({ snapshots }) => snapshots.length > 1);
    host.hidden = filmed.length === 0;
    if (filmed.length === run.options.length) return;
    offer(run, filmed.map(({ id, name }) => [id, name]), run.value || place.get("lapse"));
    choose(film);
    if (place.get("lapse") === run.value) ask(film);
  }));
  fill(host, section("timelapse", "Time-lapse", "The same sentence through the model as it was after 0, 1, 2, 4, 8 … steps of its training. One sees attention form, and the answer that the trained model gives become likely.", form, problem, waiting, stage));
  return () => {
    pause(film);
    film.asked?.abort();
    film.ends.forEach((end) => end());
  };
}

function offer(select, options, chosen) {
  fill(select, ...options.map(([value, name]) => element("option", { value, selected: value === chosen }, name)));
}

/** The run of the form, as it is now: it may have another snapshot by the time it is asked. */
function cardOf({ page, run }) {
  return page.state.cards.find(({ id }) => id === run.value);
}

/** Another run: its languages, and nothing to be seen before it is asked. */
function choose(film) {
  const { languages, task } = cardOf(film);
  film.asked?.abort();
  pause(film);
  film.stage.hidden = true;
  film.waiting.textContent = "";
  film.to.hidden = languages.length === 0;
  offer(film.to, languages.map((code) => [code, code]), film.app.place.get("to") ?? languages[1]);
  film.text.value ||= EXAMPLES[task] ?? "Once";
}

/** What stands still while frames change. */
function parts(film) {
  const turn = (by) => () => {
    pause(film);
    go(film, film.at + by);
  };
  const slider = element("input", { type: "range", min: 0, step: 1, "aria-label": "Snapshot", on: { input: () => turn(Number(slider.value) - film.at)() } });
  const label = element("output", { class: "step-label", "aria-live": "polite" });
  const play = button("Play", () => (film.timer === null ? roll(film) : pause(film)), { class: "play", title: "Play (space)" });
  const own = element("input", { type: "checkbox", checked: film.own, on: { change: () => {
    film.own = own.checked;
    film.app.place.set({ own: film.own ? 1 : null });
    go(film, film.at);
  } } });
  const choice = element("label", {}, own, " Look at what it would have written, not at the trained model’s answer");
  const stepper = element("div", { class: "lapse-stepper" }, label,
    element("div", { class: "controls" }, button("◀", turn(-1), { "aria-label": "One snapshot back", title: "One back (←)" }), play, button("▶", turn(1), { "aria-label": "One snapshot on", title: "One on (→)" }), slider),
    choice);
  const [asLines, asMatrix, heads, title] = [element("div"), element("div"), element("div"), element("h3")];
  const kind = element("select", { "aria-label": "Picture", on: { change: () => film.looked.set({ picture: kind.value }) } });
  offer(kind, [["lines", "Lines"], ["matrix", "Matrix"]], "lines");
  const picture = element("div", { class: "lapse-picture" }, element("div", {}, element("div", { class: "bar-row" }, title, kind), asLines, asMatrix), element("div", {}, element("h3", {}, "All heads: click one to see it large"), heads));
  const mount = (store) => film.ends.push(
    ...[lines(asLines, store), matrix(asMatrix, store), glance(heads, store), film.app.themed(store)],
    store.watch(["picture"], (state) => { asLines.hidden = state.picture !== "lines"; asMatrix.hidden = !asLines.hidden; }),
    store.watch(["heads", "trace"], (state) => (title.textContent = state.heads.map((head) => state.trace.title(head)).join("; "))),
  );
  return { slider, label, play, choice, stepper, output: element("p", { class: "lapse-output" }), picture, odds: element("div"), mount };
}

async function ask(film) {
  const { app, text, to, problem, waiting } = film;
  film.asked?.abort();
  const { signal } = (film.asked = new AbortController());
  pause(film);
  const card = cardOf(film);
  const language = to.hidden ? {} : { to: to.value };
  app.place.set({ lapse: card.id, text: text.value, to: null, ...language });
  problem.textContent = "";
  waiting.textContent = "Asking the trained model …";
  film.stage.ariaBusy = "true";
  const wished = app.place.get("snapshot");
  let done = 0;
  try {
    for await (const frames of framesOf(app, card, { input: text.value, ...language }, signal)) {
      if (signal.aborted) return;
      if (done++ === 0) {
        film.frames = frames;
        film.slider.max = String(frames.length - 1);
        film.stage.hidden = false;
        film.choice.hidden = !writes(card);
        const at = frames.findIndex(({ step, kept }) => String(step) === wished && !kept);
        go(film, at < 0 ? frames.length - 1 : at);
      } else go(film, film.at);
      waiting.textContent = done < frames.length ? `${done} of ${frames.length} snapshots have answered …` : "";
    }
  } catch (error) {
    if (signal.aborted) return;
    [waiting.textContent, problem.textContent] = ["", error.message];
  }
  film.stage.ariaBusy = "false";
}

/** Go to a frame; one that has not answered yet is shown when it has. */
function go(film, wanted) {
  const { frames, slider, label } = film;
  film.at = Math.max(0, Math.min(frames.length - 1, wanted));
  const frame = frames[film.at];
  slider.value = String(film.at);
  slider.ariaValueText = label.textContent = `Step ${nameOf(frame)} · ${film.at + 1} of ${frames.length}`;
  film.app.place.set({ snapshot: frame.kept ? null : frame.step });
  odds(film.odds, frames, film.at, (number) => {
    pause(film);
    go(film, number);
  });
  const trace = film.own ? frame.own : frame.given;
  if (frame.given === undefined) return fill(film.output, "…");
  const answer = written(frame.own);
  fill(film.output, film.choice.hidden ? "It chooses: " : "It writes: ", element("b", { dir: "auto" }, visible(answer)), element("span", { class: "note" }, answer === written(frames.at(-1).own) && film.at < frames.length - 1 ? " – as the trained model does" : ""));
  if (film.looked === null) film.mount((film.looked = lookAt(trace)));
  else if (film.looked.state.trace !== trace) {
    const { step, pinned } = film.looked.state;
    show(film.looked, trace);
    film.looked.set({ step: Math.min(step, Math.max(0, trace.steps.length - 1)), pinned: film.own ? null : pinned });
  }
}

function roll(film) {
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
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select") !== null) return;
  const turn = (by) => () => {
    pause(film);
    go(film, film.at + by);
  };
  const playing = event.target.closest("button, summary") === null && { " ": () => film.play.click() };
  const act = { ArrowLeft: turn(-1), ArrowRight: turn(1), Escape: () => pause(film), ...playing }[event.key];
  if (act === undefined) return;
  event.preventDefault();
  act();
}
