// Parts shared by several views: probability bars, the link to Watch, error messages.

import { button, element } from "/page/dom.js";
import { short, visible } from "/page/text.js";
import { link } from "./url_state.js";

/** Create a list of probabilities as bars: [{text, probability, act, title}]; an item with `act` is a button. */
export function bars(items, { chosen = null } = {}) {
  return element("ol", { class: "candidates" }, ...items.map(({ text, probability, act, title }, index) =>
    element("li", { class: index === chosen ? "candidate chosen" : "candidate" },
      act ? button(visible(text), act, { class: "name pick", title }) : element("span", { class: "name", title }, visible(text)),
      element("span", { class: "track", "aria-hidden": "true" }, element("i", { class: "bar", style: { "--share": Math.max(0, Math.min(1, probability)) } })),
      element("span", { class: "number" }, short(probability)))));
}

/** Create the link that opens Watch with a text. */
export function watchLink({ id }, params) {
  return element("a", { class: "inside", href: link("watch", { model: id, ...params }) }, "Show attention");
}

/** Do something that may remove or disable the focused element; if it does, focus another one instead of nothing. */
export function keepFocus(act, otherwise) {
  const focused = document.activeElement;
  act();
  if (focused !== document.body && (!focused.isConnected || focused.disabled)) otherwise.focus({ preventScroll: true });
}

/**
 * Create the error line of a view, and a function that runs something and shows its error there; `clear` then removes the result of an
 * earlier input.
 */
export function errorLine(clear = () => {}) {
  const problem = element("p", { class: "problem", role: "alert" });
  const attempt = async (act) => {
    problem.textContent = "";
    try {
      await act();
    } catch (error) {
      if (error.name === "AbortError") return;
      problem.textContent = error.message;
      clear();
    }
  };
  return { problem, attempt };
}
