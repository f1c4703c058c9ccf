// The frame: which model, which view, light or dark. What is shown is said by the address alone.

import { button, element, fill } from "/drawing/dom.js";
import { Store } from "/drawing/store.js";
import { Scope } from "/drawing/scope.js";
import { systemTheme, themeButton } from "/drawing/theme.js";
import { ask, askBytes, stream } from "./asking.js";
import { current, link, placeOf } from "./place.js";
import { viewsFor } from "./views.js";

const bar = document.getElementById("bar");
const host = document.getElementById("view");
let remove = () => {};
let shown = null;

systemTheme();
const look = new Scope(new Store({ palette: null }));
const theme = themeButton(look);

/** Show what the address says; what it does not say is filled in. */
async function show(models) {
  const { view: wanted, wishes } = current();
  const model = models.find(({ id }) => id === wishes.get("model")) ?? models[0];
  const fitting = viewsFor(model);
  const view = fitting.find(({ name }) => name === wanted) ?? fitting[0];
  if (view.name !== wanted || wishes.get("model") !== model.id) {
    wishes.set("model", model.id);
    history.replaceState(null, "", link(view.name, wishes));
  }
  drawBar(models, model, fitting, view);
  if (shown === `${view.name} ${model.id}`) return;
  shown = `${view.name} ${model.id}`;
  remove();
  fill(host, element("p", { class: "waiting" }, "…"));
  const { mount } = await import(`./${view.name}.js`);
  fill(host);
  document.title = `${view.title} · ${model.id} · Sightline`;
  remove = mount(host, { model, models, ask, askBytes, stream, place: placeOf(view.name) });
}

function drawBar(models, model, fitting, view) {
  const kept = (name) => link(name, { model: model.id, ...(current().wishes.get("text") ? { text: current().wishes.get("text") } : {}) });
  const choice = element("select", { "aria-label": "Model", on: { change: () => { location.hash = link(view.name, { model: choice.value }); } } },
    ...models.map(({ id }) => element("option", { value: id, selected: id === model.id }, id)));
  const links = fitting.map(({ name, title }) => element("a", { href: kept(name), "aria-current": name === view.name ? "page" : null }, title));
  fill(bar, element("h1", {}, "Sightline"), choice, element("nav", { "aria-label": "Views" }, ...links), element("div", { class: "tools" }, theme));
}

/** Say what went wrong, and offer to try again. */
function fail(error) {
  fill(host, element("p", { class: "problem", role: "alert" }, error.message), button("Try again", () => location.reload()));
}

try {
  const { data } = await ask("/v1/models");
  addEventListener("hashchange", () => show(data).catch(fail));
  await show(data);
} catch (error) {
  fail(error);
}
