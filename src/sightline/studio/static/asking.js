// Requests to the server, and the key that it may want. A refusal is thrown as an Error whose message is its sentence.

import { button, element } from "/drawing/dom.js";

const KEY = "sightline-key";

/** POST a body (GET without one) and return the JSON of the answer. */
export async function ask(path, body, { signal } = {}) {
  return (await answered(path, body, signal)).json();
}

/** The same, for an answer in bytes. */
export async function askBytes(path, body, { signal } = {}) {
  return (await answered(path, body, signal)).arrayBuffer();
}

/** Yield the events of a stream as they come. */
export async function* stream(path, body, { signal } = {}) {
  const reader = (await answered(path, body, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, "");
      if (data === "[DONE]") return;
      const parsed = JSON.parse(data);
      if (parsed.error) throw new Error(parsed.error.message);
      yield parsed;
    }
  }
}

async function answered(path, body, signal) {
  for (;;) {
    const answer = await fetched(path, options(body, signal));
    if (answer.status === 401) {
      sessionStorage.setItem(KEY, await askForKey(sessionStorage.getItem(KEY) !== null));
      continue;
    }
    if (!answer.ok) throw new Error(await sentence(answer));
    return answer;
  }
}

async function fetched(path, wishes) {
  try {
    return await fetch(path, wishes);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer: is it still running?");
  }
}

function options(body, signal) {
  const key = sessionStorage.getItem(KEY);
  const headers = { ...(key ? { authorization: `Bearer ${key}` } : {}), ...(body ? { "content-type": "application/json" } : {}) };
  return { method: body ? "POST" : "GET", headers, body: body ? JSON.stringify(body) : undefined, signal };
}

async function sentence(answer) {
  try {
    return (await answer.json()).error.message;
  } catch {
    return `the server answered ${answer.status}`;
  }
}

let asked = null;

/** Ask the person for the key, once for all requests that wait for it. */
function askForKey(wrong) {
  asked ??= new Promise((resolve) => {
    const input = element("input", { type: "password", id: "key", autocomplete: "off", required: true });
    const dialog = element("dialog", { "aria-labelledby": "key-title" },
      element("form", { method: "dialog" },
        element("h2", { id: "key-title" }, "This server needs a key"),
        element("p", { class: "explanation" }, wrong ? "That was not the right one. It is what --api-key was given." : "It is what --api-key was given when it was started. It is kept until this tab is closed."),
        element("p", {}, element("label", { for: "key" }, "Key "), input),
        button("Use this key", () => {}, { type: "submit", class: "main" }),
      ),
    );
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      asked = null;
      dialog.remove();
      resolve(input.value);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return asked;
}
