// The frame: which model, which view, light or dark. What is shown is said by the address alone.

import { button, element, fill } from "/drawing/dom.js";
import { Scope } from "/drawing/scope.js";
import { Store } from "/drawing/store.js";
import { palette, systemTheme, themeButton } from "/drawing/theme.js";
import { ask, askBytes, stream } from "./asking.js";
import { current, link, placeOf } from "./place.js";
import { viewsFor } from "./views.js";

const host = document.getElementById("view");
let remove = () => {};
let latest = 0;

systemTheme();
const look = new Scope(new Store({ palette: palette() }));
const choice = element("select", { "aria-label": "Model", hidden: true, on: { change: () => { location.hash = link(current().view, { model: choice.value }); } } });
const nav = element("nav", { "aria-label": "Views" });
fill(document.getElementById("bar"), element("h1", {}, "Sightline"), choice, nav, element("div", { class: "tools" }, themeButton(look)));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is taken
  host.focus();
});

/** Give a store the colours of the theme, now and whenever it changes; return a function that ends this. */
function themed(store) {
  return look.store.watch(["palette"], (state) => store.set({ palette: state.palette }));
}

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
  const turn = ++latest;
  remove();
  remove = () => {};
  document.title = `${view.title} · ${model.id} · Sightline`;
  choice.value = model.id;
  drawLinks(model, fitting, view);
  fill(host, element("p", { class: "waiting" }, "…"));
  const { mount } = await import(`./${view.name}.js`);
  if (turn !== latest) return; // somebody has gone on meanwhile
  fill(host);
  const place = placeOf(view.name, () => drawLinks(model, fitting, view));
  remove = mount(host, { model, models, ask, askBytes, stream, place, themed });
}

/** Draw the links to the views, which take along the text and what stands beside it. */
function drawLinks(model, fitting, view) {
  const given = ["text", "before", "second"].map((name) => [name, current().wishes.get(name)]);
  const wishes = { model: model.id, ...Object.fromEntries(given.filter(([, value]) => value)) };
  const focused = nav.contains(document.activeElement);
  if (nav.children.length !== fitting.length) fill(nav, ...fitting.map(() => element("a")));
  fitting.forEach(({ name, title }, place) => {
    const one = nav.children[place];
    one.textContent = title;
    one.href = link(name, wishes);
    one.ariaCurrent = name === view.name ? "page" : null;
  });
  if (focused) nav.querySelector("[aria-current]").focus();
}

/** Say what went wrong, and offer to try again. */
function fail(error) {
  fill(host, element("p", { class: "problem", role: "alert" }, error.message), button("Try again", () => location.reload()));
}

try {
  const { data } = await ask("/v1/models");
  choice.hidden = false;
  fill(choice, ...data.map(({ id }) => element("option", { value: id }, id)));
  addEventListener("hashchange", () => show(data).catch(fail));
  await show(data);
} catch (error) {
  fail(error);
}
