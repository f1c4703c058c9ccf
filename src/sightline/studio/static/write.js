// Write: the model continues a text, or offers three continuations to choose from.

import { button, element, fill } from "/drawing/dom.js";
import { tokenProbabilities, traceText } from "./write_probabilities.js";
import { watchLink, loadStyles, errorLine } from "./view_parts.js";
import { undoHistory } from "./undo_history.js";
import { settings } from "./sampling_settings.js";

const N_CONTINUATIONS = 3;
const PAUSE = 400; // milliseconds after typing until probabilities are updated

/** Draw the view into an element; return a function that removes it. */
export function mount(host, app) {
  loadStyles("write");
  const { model, params, stream } = app;
  const area = element("textarea", { rows: 7, "aria-label": "Text", spellcheck: "false", dir: "auto" });
  area.value = params.get("text") ?? model.example?.text ?? "";
  const { problem, attempt } = errorLine();
  const probabilityErrors = errorLine();
  const knobs = settings(params);
  const list = element("div", { class: "continuations", role: "listbox", "aria-label": "Continuations", hidden: true });
  const probabilities = element("div");
  const wantsProbabilities = element("input", { type: "checkbox", id: "probabilities", checked: params.get("probabilities") !== null });
  const look = element("span");
  let [offers, chosen, running, asked, timer, ended] = [[], 0, null, null, null, false];

  const changed = (text) => {
    params.set({ text });
    dismiss();
    fill(probabilities);
    follow();
    clearTimeout(timer);
    timer = setTimeout(showProbabilities, PAUSE);
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
    area, element("div", { class: "ask" }, continueButton, three, stop, undo, redo, look), problem, list, knobs.node,
    element("p", { class: "option" }, wantsProbabilities, element("label", { for: "probabilities" }, "Show the probability of each token")), probabilityErrors.problem, probabilities);
  wantsProbabilities.addEventListener("change", showProbabilities);
  fill(host, node);
  follow();
  showProbabilities();
  return () => {
    ended = true;
    running?.abort();
    asked?.abort();
    clearTimeout(timer);
    fill(host);
  };
}
