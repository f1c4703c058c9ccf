// Chat: a conversation. All of it is sent each time; how much of it is read, the model was made for.

import { button, element, fill } from "/drawing/dom.js";
import { saving } from "/drawing/saving.js";
import { turnsIn } from "./beside.js";
import { inside, styled, trying } from "./write_parts.js";

/** Draw the view into an element; return a function that removes it. */
export function mount(host, { model, place, stream }) {
  styled("write");
  const kept = turnsIn(place.get("turns") ?? place.get("before")); // what Watch calls “said before” is said here
  const turns = kept.length % 2 === 0 ? kept : [];
  const list = element("ol", { class: "turns", tabindex: 0, "aria-label": "The conversation", "aria-live": "polite" });
  const input = element("input", { type: "text", "aria-label": "Say something", placeholder: "Say something", autocomplete: "off", required: true, dir: "auto" });
  input.value = place.get("text") ?? (turns.length > 0 ? "" : model.example?.text ?? "");
  const { problem, attempt } = trying();
  let [running, ended] = [null, false];
  const say = button("Say", () => {}, { type: "submit", class: "main" });
  const stop = button("Stop", () => running?.abort());
  const anew = button("New conversation", () => {
    running?.abort();
    turns.length = 0;
    keep();
  });

  function keep() {
    place.set({ turns: turns.length > 0 ? JSON.stringify(turns) : null });
    follow();
  }

  function follow() {
    [say.disabled, stop.disabled, anew.disabled] = [running !== null, running === null, turns.length === 0];
    if (list.children.length !== turns.length) fill(list, ...turns.map(bubble));
  }

  function bubble(text, number) {
    const own = number % 2 === 0;
    const before = turns.slice(0, Math.max(0, number - 1));
    const link = own ? null : inside(model, { text: turns[number - 1], ...(before.length > 0 ? { before: JSON.stringify(before) } : {}) });
    return element("li", { class: own ? "turn own" : "turn" }, element("span", { dir: "auto" }, text || "…"), link);
  }

  async function reply() {
    const messages = turns.map((content, number) => ({ role: number % 2 === 0 ? "user" : "assistant", content }));
    running = new AbortController();
    turns.push("");
    follow();
    try {
      for await (const { choices } of stream("/v1/chat/completions", { model: model.id, messages, stream: true }, { signal: running.signal })) {
        turns[turns.length - 1] += choices[0]?.delta.content ?? "";
        fill(list.lastChild, ...bubble(turns.at(-1), turns.length - 1).childNodes);
        list.scrollTop = list.scrollHeight;
      }
    } catch (error) {
      if (error.name !== "AbortError") turns.splice(-2); // as if it had not been said
      throw error;
    } finally {
      running = null;
      if (!ended) keep(); // else the address is another view's
    }
  }

  function send(event) {
    event.preventDefault();
    const text = input.value.trim();
    if (text === "" || running !== null) return;
    turns.push(text);
    input.value = "";
    place.set({ text: null });
    attempt(reply).then(() => {
      if (problem.textContent !== "") input.value = text;
      input.focus();
    });
  }

  const node = element("section", { class: "chat", "aria-labelledby": "chat-title", on: { keydown: (event) => event.key === "Escape" && running?.abort() } },
    element("h2", { id: "chat-title" }, "Talk with the model"),
    element("p", { class: "explanation" }, "It reads the last few turns and writes a reply, word by word. It remembers nothing else. “See inside” opens Watch with what it read."),
    list, problem, element("form", { class: "ask", on: { submit: send } }, input, say, stop, anew));
  node.append(saving("chat", list, () => turns.map((text, number) => ({ role: number % 2 === 0 ? "user" : "assistant", text }))));
  fill(host, node);
  place.set({ before: null });
  keep();
  return () => {
    ended = true;
    running?.abort();
    fill(host);
  };
}
