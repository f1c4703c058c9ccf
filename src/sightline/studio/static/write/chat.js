// Chat: a conversation. All turns are sent with each request; the model decides how many it reads.

import { button, element, fill } from "/page/dom.js";
import { saveButton } from "/page/export.js";
import { parseTurns } from "../inputs.js";
import { inputHelp } from "../model_card.js";
import { errorLine, watchLink } from "../view_parts.js";

/** Draw the view into an element; return a function that removes it. */
export function mount(host, app) {
  const { model, params, stream } = app;
  const kept = parseTurns(params.get("turns") ?? params.get("before")); // the earlier turns of Watch
  const turns = kept.length % 2 === 0 ? kept : [];
  const list = element("ol", { class: "turns", tabindex: 0, "aria-label": "Conversation", "aria-live": "polite" });
  const input = element("input", { type: "text", "aria-label": "Message", placeholder: "Message", autocomplete: "off", required: true, dir: "auto" });
  input.value = params.get("text") ?? (turns.length > 0 ? "" : model.example?.text ?? "");
  const { problem, attempt } = errorLine();
  const help = inputHelp(app, ({ text }) => {
    input.value = text;
    input.focus();
  });
  let [running, ended] = [null, false];
  const sendButton = button("Send", () => {}, { type: "submit", class: "main" });
  const stop = button("Stop", () => running?.abort());
  const anew = button("New conversation", () => {
    running?.abort();
    turns.length = 0;
    keep();
    input.focus(); // the button is disabled now
  });

  function keep() {
    params.set({ turns: turns.length > 0 ? JSON.stringify(turns) : null });
    follow();
  }

  function follow() {
    [sendButton.disabled, stop.disabled, anew.disabled] = [running !== null, running === null, turns.length === 0];
    if (list.children.length !== turns.length) fill(list, ...turns.map(bubble));
  }

  function bubble(text, number) {
    const own = number % 2 === 0;
    const before = turns.slice(0, Math.max(0, number - 1));
    const link = own ? null : watchLink(model, { text: turns[number - 1], ...(before.length > 0 ? { before: JSON.stringify(before) } : {}) });
    return element("li", { class: own ? "turn own" : "turn" }, element("span", { dir: "auto" }, text || "…"), link);
  }

  async function reply() {
    const messages = turns.map((content, number) => ({ role: number % 2 === 0 ? "user" : "assistant", content }));
    const clicked = document.activeElement === sendButton;
    running = new AbortController();
    turns.push("");
    follow();
    if (clicked) stop.focus(); // a disabled button gets no Escape
    try {
      for await (const { choices } of stream("/v1/chat/completions", { model: model.id, messages, stream: true }, { signal: running.signal })) {
        turns[turns.length - 1] += choices[0]?.delta.content ?? "";
        fill(list.lastChild, ...bubble(turns.at(-1), turns.length - 1).childNodes);
        list.scrollTop = list.scrollHeight;
      }
    } catch (error) {
      if (error.name !== "AbortError") turns.splice(-2); // remove the failed turn
      throw error;
    } finally {
      running = null;
      if (!ended) keep(); // else the URL belongs to another view
    }
  }

  function send(event) {
    event.preventDefault();
    const text = input.value.trim();
    if (text === "" || running !== null) return;
    turns.push(text);
    help.check(text);
    input.value = "";
    params.set({ text: null });
    attempt(reply).then(() => {
      if (problem.textContent !== "") input.value = text;
      input.focus();
    });
  }

  const node = element("section", { class: "chat", "aria-labelledby": "chat-title", on: { keydown: (event) => event.key === "Escape" && running?.abort() } },
    element("h2", { id: "chat-title" }, "Chat with the model"),
    element("p", { class: "explanation" }, "The model reads the last turns and generates a reply token by token; it has no other memory. “Show attention” opens Watch with the same input."),
    list, problem, element("form", { class: "ask", on: { submit: send } }, input, sendButton, stop, anew), help.node);
  node.append(saveButton("chat", list, () => turns.map((text, number) => ({ role: number % 2 === 0 ? "user" : "assistant", text }))));
  fill(host, node);
  params.set({ before: null });
  keep();
  return () => {
    ended = true;
    running?.abort();
    fill(host);
  };
}
