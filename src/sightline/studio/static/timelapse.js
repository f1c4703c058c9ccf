// The time-lapse: one text through every snapshot of a run, to see attention patterns form and the output become likely.

import { button, element, fill, section } from "/drawing/dom.js";
import { headGrid } from "/drawing/head_grid.js";
import { lines } from "/drawing/lines.js";
import { createStore, showTrace } from "/drawing/trace_store.js";
import { matrix } from "/drawing/matrix.js";
import { visible } from "/drawing/token_text.js";
import { framesOf, generates, outputOf } from "./timelapse_frames.js";
import { nameOf, probabilityTable } from "./timelapse_probabilities.js";

const STEP_MS = 900;
const EXAMPLES = { translation: "March 14, 2026", "masked-language-model": "The [MASK] dog" };

/** Draw the time-lapse of the runs that have snapshots; return a function that removes it. */
export function timelapse(host, app, page) {
  const { params } = app;
  const player = { app, page, frames: [], at: 0, own: params.get("own") !== null, store: null, ends: [], timer: null, pending: null };
  const run = element("select", { "aria-label": "Run", on: { change: () => choose(player) } });
  const text = element("input", { type: "text", "aria-label": "Text", maxlength: 2000, required: true, value: params.get("text") });
  const to = element("select", { "aria-label": "Target language" });
  const form = element("form", { class: "ask", on: { submit: (event) => { event.preventDefault(); load(player); } } }, run, text, to, button("Show", () => {}, { type: "submit", class: "main" }));
  const [problem, waiting] = [element("p", { class: "problem", role: "alert" }), element("p", { class: "waiting", "aria-live": "polite" })];
  const stage = element("div", { hidden: true, on: { keydown: (event) => keys(player, event) } });
  Object.assign(player, { run, text, to, problem, waiting, stage, ...parts(player) });
  fill(stage, player.stepper, player.output, player.picture, player.probabilities);
  player.ends.push(page.watch(["cards"], ({ cards }) => {
    const withSnapshots = (cards ?? []).filter(({ snapshots }) => snapshots.length > 1);
    host.hidden = withSnapshots.length === 0;
    if (withSnapshots.length === run.options.length) return;
    offer(run, withSnapshots.map(({ id, name }) => [id, name]), run.value || params.get("timelapse"));
    choose(player);
    if (params.get("timelapse") === run.value) load(player);
  }));
  fill(host, section("timelapse", "Time-lapse", "The same text through the model after 0, 1, 2, 4, 8 … training steps: attention patterns form, and the output of the trained model becomes likely.", form, problem, waiting, stage));
  return () => {
    pause(player);
    player.pending?.abort();
    player.ends.forEach((end) => end());
  };
}

function offer(select, options, chosen) {
  fill(select, ...options.map(([value, name]) => element("option", { value, selected: value === chosen }, name)));
}

/** The run selected in the form, as it is now: it may have new snapshots. */
function cardOf({ page, run }) {
  return page.state.cards.find(({ id }) => id === run.value);
}

/** Select another run: offer its languages, and hide the old result. */
function choose(player) {
  const { languages, task } = cardOf(player);
  player.pending?.abort();
  pause(player);
  player.stage.hidden = true;
  player.waiting.textContent = "";
  player.to.hidden = languages.length === 0;
  offer(player.to, languages.map((code) => [code, code]), player.app.params.get("to") ?? languages[1]);
  player.text.value ||= EXAMPLES[task] ?? "Once";
}

/** The elements that stay while frames change. */
function parts(player) {
  const move = (by) => () => {
    pause(player);
    go(player, player.at + by);
  };
  const slider = element("input", { type: "range", min: 0, step: 1, "aria-label": "Snapshot", on: { input: () => move(Number(slider.value) - player.at)() } });
  const label = element("output", { class: "step-label", "aria-live": "polite" });
  const play = button("Play", () => (player.timer === null ? start(player) : pause(player)), { class: "play", title: "Play (space)" });
  const own = element("input", { type: "checkbox", checked: player.own, on: { change: () => {
    player.own = own.checked;
    player.app.params.set({ own: player.own ? 1 : null });
    go(player, player.at);
  } } });
  const choice = element("label", {}, own, " Show each snapshot's own output instead of the trained model's output");
  const stepper = element("div", { class: "timelapse-stepper" }, label,
    element("div", { class: "controls" }, button("◀", move(-1), { "aria-label": "Previous snapshot", title: "Previous (←)" }), play, button("▶", move(1), { "aria-label": "Next snapshot", title: "Next (→)" }), slider),
    choice);
  const [asLines, asMatrix, heads, title] = [element("div"), element("div"), element("div"), element("h3")];
  const kind = element("select", { "aria-label": "Picture", on: { change: () => player.store.set({ picture: kind.value }) } });
  offer(kind, [["lines", "Lines"], ["matrix", "Matrix"]], "lines");
  const picture = element("div", { class: "timelapse-picture" }, element("div", {}, element("div", { class: "bar-row" }, title, kind), asLines, asMatrix), element("div", {}, element("h3", {}, "Attention heads: click one to select it"), heads));
  const mount = (store) => player.ends.push(
    ...[lines(asLines, store), matrix(asMatrix, store), headGrid(heads, store), player.app.themed(store)],
    store.watch(["picture"], (state) => { asLines.hidden = state.picture !== "lines"; asMatrix.hidden = !asLines.hidden; }),
    store.watch(["heads", "trace"], (state) => (title.textContent = state.heads.map((head) => state.trace.title(head)).join("; "))),
  );
  return { slider, label, play, choice, stepper, output: element("p", { class: "timelapse-output" }), picture, probabilities: element("div"), mount };
}

async function load(player) {
  const { app, text, to, problem, waiting } = player;
  player.pending?.abort();
  const { signal } = (player.pending = new AbortController());
  pause(player);
  const card = cardOf(player);
  const language = to.hidden ? {} : { to: to.value };
  app.params.set({ timelapse: card.id, text: text.value, to: null, ...language });
  problem.textContent = "";
  waiting.textContent = "Running the trained model …";
  player.stage.ariaBusy = "true";
  const requested = app.params.get("snapshot");
  let done = 0;
  try {
    for await (const frames of framesOf(app, card, { input: text.value, ...language }, signal)) {
      if (signal.aborted) return;
      if (done++ === 0) {
        player.frames = frames;
        player.slider.max = String(frames.length - 1);
        player.stage.hidden = false;
        player.choice.hidden = !generates(card);
        const at = frames.findIndex(({ step, best }) => String(step) === requested && !best);
        go(player, at < 0 ? frames.length - 1 : at);
      } else go(player, player.at);
      waiting.textContent = done < frames.length ? `${done} of ${frames.length} snapshots done …` : "";
    }
  } catch (error) {
    if (signal.aborted) return;
    [waiting.textContent, problem.textContent] = ["", error.message];
  }
  player.stage.ariaBusy = "false";
}

/** Go to a frame; one that is not loaded yet is shown when it is. */
function go(player, wanted) {
  const { frames, slider, label } = player;
  player.at = Math.max(0, Math.min(frames.length - 1, wanted));
  const frame = frames[player.at];
  slider.value = String(player.at);
  slider.ariaValueText = label.textContent = `Step ${nameOf(frame)} · ${player.at + 1} of ${frames.length}`;
  player.app.params.set({ snapshot: frame.best ? null : frame.step });
  probabilityTable(player.probabilities, frames, player.at, (number) => {
    pause(player);
    go(player, number);
  });
  const trace = player.own ? frame.own : frame.given;
  if (frame.given === undefined) return fill(player.output, "…");
  const answer = outputOf(frame.own);
  fill(player.output, player.choice.hidden ? "Prediction: " : "Output: ", element("b", { dir: "auto" }, visible(answer)), element("span", { class: "note" }, answer === outputOf(frames.at(-1).own) && player.at < frames.length - 1 ? " (same as the trained model)" : ""));
  if (player.store === null) player.mount((player.store = createStore(trace)));
  else if (player.store.state.trace !== trace) {
    const { step, pinned } = player.store.state;
    showTrace(player.store, trace);
    player.store.set({ step: Math.min(step, Math.max(0, trace.steps.length - 1)), pinned: player.own ? null : pinned });
  }
}

function start(player) {
  if (player.at === player.frames.length - 1) go(player, 0);
  player.play.textContent = "Pause";
  player.timer = setInterval(() => {
    if (player.at === player.frames.length - 1) pause(player);
    else if (player.frames[player.at + 1].given !== undefined) go(player, player.at + 1);
  }, STEP_MS);
}

function pause(player) {
  clearInterval(player.timer);
  player.timer = null;
  player.play.textContent = "Play";
}

function keys(player, event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select") !== null) return;
  const move = (by) => () => {
    pause(player);
    go(player, player.at + by);
  };
  const playing = event.target.closest("button, summary") === null && { " ": () => player.play.click() };
  const act = { ArrowLeft: move(-1), ArrowRight: move(1), Escape: () => pause(player), ...playing }[event.key];
  if (act === undefined) return;
  event.preventDefault();
  act();
}
