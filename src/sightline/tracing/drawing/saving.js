// The save button of a view: what it shows as SVG, as PNG, or its numbers as JSON, made here and handed to the browser.

import { button, element } from "./dom.js";
import { raster } from "./raster.js";
import { vector, written } from "./vector.js";

/** Make the button for a view; `data` returns the numbers that it shows. */
export function saving(name, node, data) {
  const acts = {
    SVG: () => file(`<?xml version="1.0" encoding="UTF-8"?>\n${written(vector(node))}\n`, "image/svg+xml"),
    PNG: () => raster(vector(node)),
    JSON: () => file(`${JSON.stringify(data(), null, 1)}\n`, "application/json"),
  };
  const choices = Object.entries(acts).map(([kind, make]) =>
    button(kind, async () => download(await make(), `sightline-${name}.${kind.toLowerCase()}`), { class: "link", "aria-label": `Save as ${kind}` }),
  );
  const kinds = element("span", { class: "save-kinds", hidden: true }, ...choices);
  const opener = button("Save", () => {
    kinds.hidden = !kinds.hidden;
    opener.setAttribute("aria-expanded", String(!kinds.hidden));
  }, { class: "link", "aria-expanded": "false", title: "Save what is shown here" });
  return element("div", { class: "save" }, kinds, opener);
}

function file(text, type) {
  return new Blob([text], { type });
}

function download(blob, name) {
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
