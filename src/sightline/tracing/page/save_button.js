// The save button of a view: the picture as SVG or PNG, or its numbers as JSON, as a download.

import { button, element } from "./dom.js";
import { toPng } from "./png_export.js";
import { toSvg, svgText } from "./svg_export.js";

/** Create the save button of a view; `data` returns the numbers it shows. */
export function saveButton(name, node, data) {
  const acts = {
    SVG: () => file(`<?xml version="1.0" encoding="UTF-8"?>\n${svgText(toSvg(node))}\n`, "image/svg+xml"),
    PNG: () => toPng(toSvg(node)),
    JSON: () => file(`${JSON.stringify(data(), null, 1)}\n`, "application/json"),
  };
  const choices = Object.entries(acts).map(([kind, make]) =>
    button(kind, async () => download(await make(), `sightline-${name}.${kind.toLowerCase()}`), { class: "link", "aria-label": `Save as ${kind}` }),
  );
  const kinds = element("span", { class: "save-kinds", hidden: true }, ...choices);
  const opener = button("Save", () => {
    kinds.hidden = !kinds.hidden;
    opener.setAttribute("aria-expanded", String(!kinds.hidden));
  }, { class: "link", "aria-expanded": "false", title: "Save this view" });
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
