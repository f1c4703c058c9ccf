// The frame of the page: the list of views, choice of model and view, theme. The URL alone determines what is shown.

import { button, element, fill } from "/page/dom.js";
import { Store } from "/page/store.js";
import { describeSource } from "/page/export.js";
import { palette, systemTheme, themeButton } from "/page/theme.js";
import { Scope } from "/page/view.js";
import { fetchBytes, fetchJson, stream } from "./api.js";
import { aboutModel } from "./model_card.js";
import { hasRuns } from "./runs_enabled.js";
import { current, link, urlParams } from "./url_state.js";

const isMadeFor = (tab) => ({ view }) => view.tab === tab; // each task names the view made for it

/** All views, in the order of the header, where they are, and the models that each supports; `reads` a text of the user; `styles` are folders whose stylesheets it uses instead of its own. */
const views = [
  { name: "watch", folder: "watch", title: "Watch", supports: () => true, reads: true },
  { name: "walk", folder: "walk", title: "Walk through", supports: () => true, reads: true },
  { name: "write", folder: "write", title: "Write", supports: isMadeFor("write"), reads: true },
  { name: "chat", folder: "write", title: "Chat", supports: isMadeFor("chat"), reads: true },
  { name: "fill", folder: "write", title: "Fill", supports: isMadeFor("fill"), reads: true },
  { name: "classify", folder: "write", title: "Classify", supports: isMadeFor("classify"), reads: true },
  { name: "positions", folder: "positions", title: "Positions", supports: () => true },
  { name: "words", folder: "words", title: "Words", supports: () => true, styles: ["write", "positions"] },
  { name: "runs", folder: "runs", title: "Runs", supports: () => hasRuns, withoutModel: true },
];

const NO_MODEL = "There is no model yet: this server only shows training runs (see Runs). When a run has saved a model, start sightline serve with the folder of the run.";
const host = document.getElementById("view");
const about = document.getElementById("about");
let remove = () => {};
let latest = 0;
let shown = null; // the model

systemTheme();
const theme = new Scope(new Store({ palette: palette() }));
const choice = element("select", { "aria-label": "Model", hidden: true, on: { change: () => { location.hash = link(current().view, { ...given(), model: choice.value }); } } });
const nav = element("nav", { "aria-label": "Views" });
fill(document.getElementById("bar"), element("h1", {}, "Sightline"), choice, nav, element("div", { class: "tools" }, themeButton(theme)));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash of the URL is used for the state
  host.focus();
});

/** Give a store the color scales of the theme, now and whenever it changes; return a function that unsubscribes. */
function themed(store) {
  return theme.store.watch(["palette"], (state) => store.set({ palette: state.palette }));
}

/** Show what the URL asks for; fill in what it leaves out. */
async function show(models) {
  const { view: wanted, params: query } = current();
  const model = models.find(({ id }) => id === query.get("model")) ?? models[0] ?? null;
  const available = views.filter(({ supports }) => (model === null ? supports.length === 0 : supports(model))); // without a model, those that suit any
  const view = available.find(({ name }) => name === wanted) ?? available.find(({ withoutModel }) => model !== null || withoutModel);
  if (view.name !== wanted || (model !== null && query.get("model") !== model.id)) {
    if (model !== null) query.set("model", model.id);
    history.replaceState(null, "", link(view.name, query));
  }
  const turn = ++latest;
  remove();
  remove = () => {};
  document.title = [view.title, model?.id, "Sightline"].filter(Boolean).join(" · ");
  shown = model;
  describeSource(() => ({ view: view.title, model: model?.id ?? null, text: current().params.get("text") }));
  about.hidden = !view.reads || model === null;
  fill(about, ...(model === null ? [] : aboutModel(model)));
  choice.value = model?.id ?? "";
  drawLinks(model, available, view);
  if (model === null && !view.withoutModel) return fill(host, element("p", { class: "explanation" }, NO_MODEL));
  fill(host, element("p", { class: "waiting" }, "…"));
  const [{ mount }] = await Promise.all([import(`./${view.folder}/${view.name}.js`), ...(view.styles ?? [view.folder]).map(loadStyles)]);
  if (turn !== latest) return; // another view was opened in the meantime
  fill(host);
  const params = urlParams(view.name, () => drawLinks(model, available, view));
  remove = mount(host, { model, models, fetchJson, fetchBytes, stream, params, themed });
}

const sheets = new Map();

/** Load the stylesheet of a folder once; return a promise that resolves when it is there: what a view measures depends on it. */
function loadStyles(folder) {
  if (!sheets.has(folder)) {
    const href = `/studio/${folder}/${folder}.css`;
    sheets.set(folder, new Promise((done) => document.head.append(element("link", { rel: "stylesheet", href, on: { load: done, error: done } }))));
  }
  return sheets.get(folder);
}

/** The input in the URL: the text, its extra inputs and the target language. */
function input() {
  const { params } = current();
  return Object.fromEntries(["text", "before", "second", "to"].map((name) => [name, params.get(name)]).filter(([, value]) => value));
}

/** The input that another model is given too: what the user chose, not the first example of this model. */
function given() {
  const { text, second = null } = shown.example;
  const found = input();
  return found.text === text && (found.second ?? null) === second && !found.before ? {} : found;
}

/** Draw the links to the views; they keep the input. */
function drawLinks(model, available, view) {
  const params = { ...(model === null ? {} : { model: model.id }), ...input() };
  const focused = nav.contains(document.activeElement);
  if (nav.children.length !== available.length) fill(nav, ...available.map(() => element("a")));
  available.forEach(({ name, title }, index) => {
    const one = nav.children[index];
    one.textContent = title;
    one.href = link(name, params);
    one.ariaCurrent = name === view.name ? "page" : null;
  });
  if (focused) nav.querySelector("[aria-current]").focus();
}

/** Show an error, and offer to try again. */
function fail(error) {
  fill(host, element("p", { class: "problem", role: "alert" }, error.message), button("Try again", () => location.reload()));
}

try {
  const { data } = await fetchJson("/v1/models");
  choice.hidden = data.length === 0;
  fill(choice, ...data.map(({ id }) => element("option", { value: id }, id)));
  addEventListener("hashchange", () => show(data).catch(fail));
  await show(data);
} catch (error) {
  fail(error);
}
