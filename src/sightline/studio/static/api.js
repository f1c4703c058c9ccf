// Requests to the server, and the API key it may require. An error response is thrown as an Error with the server's message
// and its `code`.

import { button, element } from "/page/dom.js";

const KEY = "sightline-key";

/** POST a body (GET without one) and return the JSON response. */
export async function fetchJson(path, body, { signal } = {}) {
  return (await send(path, body, signal)).json();
}

/** The same, for a binary response. */
export async function fetchBytes(path, body, { signal } = {}) {
  return (await send(path, body, signal)).arrayBuffer();
}

/** Yield the events of a stream as they arrive. */
export async function* stream(path, body, { signal } = {}) {
  const reader = (await send(path, body, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
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
      if (parsed.error) throw problem(parsed.error);
      yield parsed;
    }
  }
}

async function send(path, body, signal) {
  for (;;) {
    const answer = await fetchOrExplain(path, requestOptions(body, signal));
    if (answer.status === 401) {
      sessionStorage.setItem(KEY, await askForKey(sessionStorage.getItem(KEY) !== null));
      continue;
    }
    if (!answer.ok) throw problem(await errorOf(answer));
    return answer;
  }
}

async function fetchOrExplain(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not respond. Is it still running?");
  }
}

function requestOptions(body, signal) {
  const key = sessionStorage.getItem(KEY);
  const headers = { ...(key ? { authorization: `Bearer ${key}` } : {}), ...(body ? { "content-type": "application/json" } : {}) };
  return { method: body ? "POST" : "GET", headers, body: body ? JSON.stringify(body) : undefined, signal };
}

async function errorOf(answer) {
  try {
    return (await answer.json()).error;
  } catch {
    return { message: `The server responded with status ${answer.status}.`, code: null };
  }
}

function problem({ message, code }) {
  return Object.assign(new Error(message), { code });
}

let keyDialog = null;

/** Ask the user for the key, once for all requests that wait for it. */
function askForKey(wrong) {
  keyDialog ??= new Promise((resolve) => {
    const input = element("input", { type: "password", id: "key", autocomplete: "off", required: true });
    const dialog = element("dialog", { "aria-labelledby": "key-title" },
      element("form", { method: "dialog" },
        element("h2", { id: "key-title" }, "This server requires an API key"),
        element("p", { class: "explanation" }, wrong ? "Wrong key. Use the value of --api-key that the server was started with." : "Enter the value of --api-key that the server was started with. It is kept until this tab is closed."),
        element("p", {}, element("label", { for: "key" }, "Key "), input),
        button("Use this key", () => {}, { type: "submit", class: "main" }),
      ),
    );
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      keyDialog = null;
      dialog.remove();
      resolve(input.value);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return keyDialog;
}

/** The path at which a model is used, from its card. */
export function endpointOf({ endpoint }) {
  return endpoint.replace("POST ", "");
}
