// The time-lapse: one text through every snapshot of a run, to see attention patterns form and the output become likely.

import { button, element, fill, section } from "/page/dom.js";
import { saveButton } from "/page/export.js";
import { headGrid } from "/page/heads.js";
import { lines } from "/page/lines.js";
import { matrix } from "/page/matrix.js";
import { createStore, showTrace } from "/page/store.js";
import { groupDigits, short, visible } from "/page/text.js";
import { readTrace } from "/page/trace.js";

const STEP_MS = 900;

/** Draw the time-lapse of the runs that have snapshots; return a function that removes it. */
export function timelapse(host, app, page) {
  const { params } = app;
  const player = { app, page, frames: [], at: 0, own: params.get("own") !== null, store: null, ends: [], timer: null, pending: null };
  const run = element("select", { "aria-label": "Run", on: { change: () => choose(player) } });
  const text = element("input", { type: "text", "aria-label": "Text", maxlength: 2000, required: true, value: params.get("text") });
  const to = element("select", { "aria-label": "Target language" });
  const form = element("form", { class: "ask", on: { submit: (event) => { event.preventDefault(); load(player, app.params.go); } } }, run, text, to, button("Show", () => {}, { type: "submit", class: "main" }));
  const [problem, waiting] = [element("p", { class: "problem", role: "alert" }), element("p", { class: "waiting", "aria-live": "polite" })];
  const stage = element("div", { hidden: true, on: { keydown: (event) => keys(player, event) } });
  Object.assign(player, { run, text, to, problem, waiting, stage, ...parts(player) });
  fill(stage, player.stepper, player.output, player.picture, player.probabilities);
  player.ends.push(page.watch(["cards"], ({ cards }) => {
    const withSnapshots = (cards ?? []).filter(({ snapshots }) => snapshots.length > 1);
    host.hidden = withSnapshots.length === 0;
    if (withSnapshots.length === run.options.length) return;
    offer(run, withSnapshots.map(({ id, name }) => [id, name]), run.value || (params.get("timelapse") ?? withSnapshots.find(({ models }) => models.includes(app.model?.id))?.id));
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
  const { languages, example } = cardOf(player);
  player.pending?.abort();
  pause(player);
  player.stage.hidden = true;
  player.waiting.textContent = "";
  player.to.hidden = languages.length === 0;
  offer(player.to, languages.map((code) => [code, code]), player.app.params.get("to") ?? example.to);
  player.text.value ||= example.text;
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

async function load(player, write = player.app.params.set) {
  const { app, text, to, problem, waiting } = player;
  player.pending?.abort();
  const { signal } = (player.pending = new AbortController());
  pause(player);
  const card = cardOf(player);
  const language = to.hidden ? {} : { to: to.value };
  write({ timelapse: card.id, text: text.value, to: null, ...language });
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
        player.choice.hidden = !card.generates;
        const at = frames.findIndex(({ step, best }) => String(step) === requested && !best);
        go(player, at < 0 ? frames.length - 1 : at);
      } else go(player, player.at);
      waiting.textContent = done < frames.length ? `${done} of ${frames.length} snapshots done …` : "";
    }
  } catch (error) {
    if (signal.aborted) return;
    [waiting.textContent, problem.textContent] = ["", error.message];
    player.stage.hidden = true; // what it shows is of another text
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

/**
 * Trace every model of a run, the last one first: text that it generates is forced on all others, so that they can be compared. Yields
 * the frames whenever one more is complete: {step, best, own, given}; `own` has the model's own output, `given` the forced one.
 */
async function* framesOf(app, card, question, signal) {
  const frames = card.snapshots.map((step) => ({ step, best: false }));
  if (card.has_best_model) frames.push({ step: card.best_step, best: true, metric: card.best_metric });
  const fetchTrace = async ({ step, best }, more) =>
    readTrace(await app.fetchBytes(`/studio-api/runs/${card.id}/trace`, { ...question, ...more, step: best ? null : step }, { signal }));
  const last = frames.at(-1);
  for (const frame of [last, ...frames.slice(0, -1)]) {
    frame.own = await fetchTrace(frame, {});
    frame.given = card.generates ? await fetchTrace(frame, { target: last.own.target.text }) : frame.own;
    yield frames;
  }
}

/** The output of a model: its text, or its predictions. */
function outputOf({ target, steps }) {
  return target.tokens.length > 0 ? target.text : steps.map(({ candidates, chosen }) => candidates[chosen].text.trim()).join(" · ");
}

/** The tokens of the last model's output, or its predictions. */
function targetTokens(frames) {
  return frames.at(-1).given.steps.map(({ candidates, chosen }) => candidates[chosen]);
}

/** The probability of a token of the output at a frame; null if it is not among the candidates. */
function probabilityOf({ given: { steps, forced } }, token, index) {
  if (forced) return Math.exp(steps[index].log_probability);
  return steps[index].candidates.find(({ id, text }) => id === token.id && text === token.text)?.probability ?? null;
}

/**
 * Draw the probability of each token of the trained model's output at every snapshot, as a table with bars; `pick(number)` is
 * called for the clicked row.
 */
function probabilityTable(host, frames, at, pick) {
  const tokens = targetTokens(frames);
  const rows = frames.map((frame, number) => {
    const known = frame.given !== undefined;
    const cells = tokens.map((token, index) => (known ? cell(probabilityOf(frame, token, index)) : element("td")));
    return element("tr", { class: number === at ? "now" : null, "aria-current": number === at ? "true" : null, on: { click: () => pick(number) } },
      element("th", { scope: "row" }, nameOf(frame)), ...cells, element("td", { class: "own-output", dir: "auto" }, known ? visible(outputOf(frame.own)) : "…"));
  });
  const heads = ["Step", ...tokens.map(({ text }) => visible(text)), "Own output"].map((name) => element("th", { scope: "col", dir: "auto" }, name));
  const table = element("table", { class: "logit-lens" }, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows));
  const whole = element("div", { class: "timelapse-probabilities" }, element("h3", {}, "Probability of the trained model's output at each snapshot"), element("div", { class: "scroller" }, table));
  whole.append(saveButton("timelapse", whole, () => frames.filter(({ given }) => given).map((frame) => ({
    step: frame.step, best: frame.best, output: outputOf(frame.own), tokens: tokens.map((token, index) => ({ text: token.text, probability: probabilityOf(frame, token, index) })) }))));
  fill(host, whole);
}

/** The label of a frame. */
function nameOf({ step, best, metric }) {
  return [step === null ? "" : groupDigits(step), best ? (metric === "last" ? "last" : "best") : ""].filter(Boolean).join(", ");
}

function cell(share) {
  if (share === null) return element("td", { title: "Not among the top candidates" }, "low");
  return element("td", {}, element("span", { class: "share", style: { "--share": String(share) } }), short(share));
}
