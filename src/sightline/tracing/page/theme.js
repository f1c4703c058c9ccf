// Light or dark theme: the system's until the button changes it; and the color scales that follow from it.

import { button } from "./dom.js";
import { colors } from "./color_scale.js";

/** Return the color scales of the current theme. */
export function palette() {
  return { weight: colors("--weights"), signed: colors("--signs") };
}

/** Apply the system's theme. */
export function systemTheme() {
  document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Create the button that switches the theme; the system's own changes are followed too. */
export function themeButton(store) {
  const { dataset } = document.documentElement;
  const node = button("", () => apply(dataset.theme === "dark" ? "light" : "dark"));
  const apply = (theme) => {
    dataset.theme = theme;
    node.textContent = theme === "dark" ? "☼ Light" : "☾ Dark";
    store.set({ palette: palette() });
  };
  store.listen(matchMedia("(prefers-color-scheme: dark)"), "change", (event) => apply(event.matches ? "dark" : "light"));
  apply(dataset.theme);
  return node;
}
