// Write: the model continues a text, or offers three continuations to choose from; with its sampling settings, and the
// probability of each token of the text.

import { button, element, fill } from "/page/dom.js";
import { saveButton } from "/page/export.js";
import { percent, quote, short, visible } from "/page/text.js";
import { undoHistory } from "../inputs.js";
import { inputHelp } from "../model_card.js";
import { bars, errorLine, keepFocus, watchLink } from "../view_parts.js";

const N_CONTINUATIONS = 3;
const PAUSE = 400; // milliseconds after typing until probabilities are updated
const KNOBS = [
  { name: "temperature", title: "Temperature", about: "Sampling temperature: lower is more predictable, higher more varied; 0 is greedy.", type: "range", min: 0, max: 2, step: 0.1, initial: "0.8" },
  { name: "top_k", title: "Top k", about: "Sample from the k most likely tokens; 0 for all.", type: "number", min: 0, max: 1000, step: 1, initial: "0" },
  { name: "top_p", title: "Top p", about: "Sample from the smallest set of tokens with this total probability.", type: "range", min: 0.05, max: 1, step: 0.05, initial: "1" },
  { name: "seed", title: "Seed", about: "The same seed gives the same text; empty for a new one each time.", type: "number", min: 0, step: 1, initial: "" },
  { name: "max_tokens", title: "Tokens", about: "Maximum number of new tokens.", type: "number", min: 1, max: 512, step: 1, initial: "24" },
];
const BYTES = /\\x[0-9a-f]{2}/; // part of a multi-byte character, not yet text

/** Draw the view into an element; return a function that removes it. */
export function mount(host, app) {
  const { model, params, stream } = app;
  const area = element("textarea", { rows: 7, "aria-label": "Text", spellcheck: "false", dir: "auto" });
  area.value = params.get("text") ?? model.example?.text ?? "";
  const { problem, attempt } = errorLine();
  const probabilityErrors = errorLine(() => fill(probabilities));
  const help = inputHelp(app, ({ text }) => {
    history.set(text);
    area.focus();
  });
  const knobs = samplingSettings(params);
  const list = element("div", { class: "continuations", role: "listbox", "aria-label": "Continuations", hidden: true });
  const probabilities = element("div");
  const wantsProbabilities = element("input", { type: "checkbox", id: "probabilities", checked: params.get("probabilities") !== null });
  const look = element("span");
  let [offers, chosen, running, asked, timer, ended] = [[], 0, null, null, null, false];

  const changed = (text) => {
    params.set({ text });
    keepFocus(() => {
      dismiss();
      fill(probabilities);
      follow();
    }, area);
    clearTimeout(timer);
    timer = setTimeout(settled, PAUSE);
  };
  const history = undoHistory(area, changed);
  const continueButton = button("Continue", () => continueText(), { class: "main", title: "Continue the text (Ctrl+Enter)" });
  const three = button("Three options", () => offer(), { title: "Three continuations to choose from (Alt+Enter)" });
  const stop = button("Stop", () => running?.abort(), { disabled: true });
  const undo = button("Undo", history.undo);
  const redo = button("Redo", history.redo);

  function follow() {
    undo.disabled = running !== null || !history.canUndo();
    redo.disabled = running !== null || !history.canRedo();
    for (const one of [continueButton, three]) one.disabled = running !== null;
    stop.disabled = running === null;
    area.readOnly = running !== null;
    fill(look, watchLink(model, { text: area.value }));
  }

  /** Generate one or several continuations; `grown(texts)` is called for every piece. */
  async function generate(n, grown) {
    dismiss();
    const clicked = [continueButton, three].includes(document.activeElement);
    running = new AbortController();
    follow();
    if (clicked) stop.focus(); // a disabled button gets no Escape
    const texts = Array(n).fill("");
    const body = { model: model.id, prompt: area.value, stream: true, ...knobs.values(), ...(n > 1 ? { n } : {}) };
    if (n > 1 && body.temperature === 0) body.beam_size = n; // no sampling: the best hypotheses of a beam search
    try {
      for await (const { choices } of stream("/v1/completions", body, { signal: running.signal })) {
        for (const { index, text } of choices) texts[index] += text;
        grown(texts);
      }
    } finally {
      const stopped = document.activeElement === stop;
      running = null;
      follow();
      if (stopped) continueButton.focus();
    }
    return texts;
  }

  async function continueText() {
    const begun = area.value;
    let now = begun;
    await attempt(() => generate(1, ([text]) => {
      area.value = now = begun + text;
      area.scrollTop = area.scrollHeight;
    }));
    if (ended) return; // the URL belongs to another view
    area.value = begun;
    history.set(now);
  }

  function offer() {
    return attempt(async () => {
      offers = await generate(N_CONTINUATIONS, (texts) => draw(texts));
      draw(offers);
    });
  }

  function draw(texts) {
    offers = texts;
    list.hidden = false;
    if (list.children.length !== texts.length) fill(list, ...texts.map((_, number) => button("", () => accept(number), { class: "continuation", role: "option", id: `continuation-${number}` })));
    texts.forEach((text, number) => {
      const item = list.children[number];
      item.textContent = text || "…";
      item.ariaSelected = String(number === chosen);
    });
    area.setAttribute("aria-activedescendant", `continuation-${chosen}`);
  }

  function dismiss() {
    [offers, chosen] = [[], 0];
    list.hidden = true;
    fill(list);
    area.removeAttribute("aria-activedescendant");
  }

  function accept(number) {
    if (running !== null) return;
    history.set(area.value + offers[number]);
    area.focus();
  }

  /** What follows when the user pauses. */
  function settled() {
    help.check(area.value);
    return showProbabilities();
  }

  async function showProbabilities() {
    asked?.abort();
    params.set({ probabilities: wantsProbabilities.checked ? 1 : null });
    if (!wantsProbabilities.checked || area.value === "") return fill(probabilities);
    asked = new AbortController();
    const { signal } = asked;
    return probabilityErrors.attempt(async () => {
      const trace = await traceText(app, area.value, signal);
      if (!signal.aborted) fill(probabilities, tokenProbabilities(trace, history.set));
    });
  }

  function keys(event) {
    if (event.key === "Escape" && running !== null) running.abort();
    else if (event.key === "Escape" && offers.length > 0) dismiss();
    else if (event.key === "Enter" && event.ctrlKey && running === null) continueText();
    else if (event.key === "Enter" && event.altKey && running === null) offer();
    else if (offers.length === 0) return;
    else if (event.key === "Tab" && !event.shiftKey) accept(chosen);
    else if (["ArrowDown", "ArrowUp"].includes(event.key)) {
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : N_CONTINUATIONS - 1)) % N_CONTINUATIONS;
      draw(offers);
    } else return;
    event.preventDefault();
  }

  const node = element("section", { class: "write", "aria-labelledby": "write-title", on: { keydown: keys } },
    element("h2", { id: "write-title" }, "Write with the model"),
    element("p", { class: "explanation" }, "Start a text and let the model continue it, one sampled token at a time. Three options: ↑ ↓ select, Tab or click accepts, Escape dismisses."),
    area, help.node, element("div", { class: "ask" }, continueButton, three, stop, undo, redo, look), problem, list, knobs.node,
    element("p", { class: "option" }, wantsProbabilities, element("label", { for: "probabilities" }, "Show the probability of each token")), probabilityErrors.problem, probabilities);
  wantsProbabilities.addEventListener("change", showProbabilities);
  fill(host, node);
  follow();
  settled();
  return () => {
    ended = true;
    running?.abort();
    asked?.abort();
    clearTimeout(timer);
    fill(host);
  };
}

/** Create the sampling settings, kept in the URL: {node, values()}, where values() are fields of a request. */
function samplingSettings(params) {
  const inputs = KNOBS.map(({ name, title, about, type, initial, ...range }) => {
    const input = element("input", { type, ...range, id: `knob-${name}`, title: about, value: params.get(name) ?? initial });
    const said = element("output", { class: "number", for: input.id }, type === "range" ? input.value : "");
    input.addEventListener("input", () => {
      if (type === "range") said.textContent = input.value;
      params.set({ [name]: input.value === initial ? null : input.value });
    });
    return { name, input, node: element("div", { class: "knob" }, element("label", { for: input.id, title: about }, title), input, said) };
  });
  return { node: element("div", { class: "knobs" }, ...inputs.map(({ node }) => node)), values: () => valuesOf(inputs) };
}

function valuesOf(inputs) {
  const given = inputs.filter(({ input }) => input.value !== "").map(({ name, input }) => [name, Number(input.value)]);
  const { temperature, max_tokens, ...drawn } = Object.fromEntries(given);
  return temperature === 0 ? { temperature, max_tokens } : { temperature, max_tokens, ...drawn };
}

/** Fetch the trace of a text, with the probability of each token. */
function traceText({ fetchJson, model }, text, signal) {
  return fetchJson("/trace", { model: model.id, input: "", target: text, activations: [], logit_lens: false, candidates: 8 }, { signal });
}

/** Draw the tokens of a trace with their probabilities; `branch(text)` is called with a text that ends in an alternative. */
function tokenProbabilities(trace, branch) {
  const { tokens, text } = trace.target;
  const special = new Set([...trace.source.tokens, ...tokens].filter((token) => token.special).map(({ id }) => id));
  const detail = element("div", { class: "others", "aria-live": "polite" });
  const letters = [...text]; // offsets count code points, as in Python
  let pinned = null;
  const show = (index) => {
    const { candidates, chosen, rank } = trace.steps[index];
    const before = letters.slice(0, tokens[index].start).join("");
    fill(detail,
      element("h3", {}, `Alternatives to ${quote(tokens[index].text)} (rank ${rank + 1})`),
      bars(candidates.map(({ id, text: one, probability }, at) => ({
        text: one,
        probability,
        title: at === chosen ? "The token in the text" : null,
        act: at === chosen || special.has(id) || BYTES.test(one) ? null : () => branch(before + one),
      })), { chosen }));
  };
  const chips = tokens.map((token, index) => {
    const { candidates, chosen } = trace.steps[index];
    const { probability } = candidates[chosen];
    const chip = button("", () => pin(index), { class: "token probability", "aria-pressed": "false", tabindex: index === 0 ? 0 : -1, "aria-label": `${visible(token.text)}, ${percent(probability)}` });
    chip.append(element("span", {}, visible(token.text)), element("span", { class: "track" }, element("i", { class: "bar", style: { "--share": probability } })), element("small", { class: "number" }, short(probability)));
    chip.addEventListener("pointerenter", () => show(index));
    chip.addEventListener("focus", () => show(index));
    return chip;
  });
  const pin = (index) => {
    pinned = pinned === index ? null : index;
    chips.forEach((chip, at) => (chip.ariaPressed = String(at === pinned)));
    show(index);
  };
  const strip = element("div", { class: "token-probabilities", role: "group", "aria-label": "Tokens and their probabilities" }, ...chips);
  strip.addEventListener("pointerleave", () => pinned !== null && show(pinned));
  strip.addEventListener("keydown", (event) => moveFocus(event, chips));
  const said = element("p", { class: "explanation" }, `Mean probability per token: ${short(Math.exp(trace.steps.reduce((sum, step) => sum + step.log_probability, 0) / trace.steps.length))} (geometric mean). Hover over a token to see its alternatives; click one to continue from it.`);
  const whole = element("div", { class: "view" }, said, strip, detail);
  const data = () => tokens.map((token, index) => ({ text: token.text, ...trace.steps[index] }));
  whole.append(saveButton("write", whole, data));
  if (tokens.length > 0) show(tokens.length - 1);
  return whole;
}

function moveFocus(event, chips) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const at = chips.indexOf(document.activeElement);
  if (by === undefined || at < 0) return;
  event.preventDefault();
  chips[at].tabIndex = -1;
  const next = chips[Math.max(0, Math.min(chips.length - 1, at + by))];
  next.tabIndex = 0;
  next.focus();
}
