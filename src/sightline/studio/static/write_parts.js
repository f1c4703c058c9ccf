// What the views for writing, talking, filling and classifying have in common.

import { button, element } from "/drawing/dom.js";
import { short } from "/drawing/numbers.js";
import { visible } from "/drawing/texts.js";
import { link } from "./place.js";

/** Load a stylesheet of the studio, once. */
export function styled(name) {
  const href = `/studio/${name}.css`;
  if (document.querySelector(`link[href="${href}"]`) === null) document.head.append(element("link", { rel: "stylesheet", href }));
}

/** Make a list of things with a probability each: [{text, probability, act, title}]; `act` makes one a button. */
export function bars(items, { chosen = null } = {}) {
  return element("ol", { class: "candidates" }, ...items.map(({ text, probability, act, title }, place) =>
    element("li", { class: place === chosen ? "candidate chosen" : "candidate" },
      act ? button(visible(text), act, { class: "name pick", title }) : element("span", { class: "name", title }, visible(text)),
      element("span", { class: "track", "aria-hidden": "true" }, element("i", { class: "bar", style: { "--share": Math.max(0, Math.min(1, probability)) } })),
      element("span", { class: "number" }, short(probability)))));
}

/** Make the link that opens Watch with a text. */
export function inside({ id }, wishes) {
  return element("a", { class: "inside", href: link("watch", { model: id, ...wishes }) }, "See inside");
}

/** Make the line in which a view says what went wrong, and a function that does something and says so. */
export function trying() {
  const problem = element("p", { class: "problem", role: "alert" });
  const attempt = async (act) => {
    problem.textContent = "";
    try {
      await act();
    } catch (error) {
      if (error.name !== "AbortError") problem.textContent = error.message;
    }
  };
  return { problem, attempt };
}
