// Light or dark: as the system wishes, until the button says otherwise; and the colours for numbers that follow.

import { button } from "./dom.js";
import { colours } from "./scale.js";

/** Return the tables of colours of the theme that is on. */
export function palette() {
  return { weight: colours("--weights"), signed: colours("--signs") };
}

/** Put on the theme that the system wishes. */
export function systemTheme() {
  document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Make the button that changes the theme, for a scope; the system's own changes are followed too. */
export function themeButton(store) {
  const { dataset } = document.documentElement;
  const node = button("", () => put(dataset.theme === "dark" ? "light" : "dark"));
  const put = (theme) => {
    dataset.theme = theme;
    node.textContent = theme === "dark" ? "☼ Light" : "☾ Dark";
    store.set({ palette: palette() });
  };
  store.listen(matchMedia("(prefers-color-scheme: dark)"), "change", (event) => put(event.matches ? "dark" : "light"));
  put(dataset.theme);
  return node;
}
