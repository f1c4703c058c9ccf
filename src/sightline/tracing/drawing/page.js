// The whole page of a trace: the sentence, one picture large, the film beside it, everything else below.

import { fromAddress, remember } from "./address.js";
import { alignment } from "./alignment.js";
import { button, element, section } from "./dom.js";
import { film, go, play } from "./film.js";
import { glance } from "./glance.js";
import { lens } from "./lens.js";
import { lines } from "./lines.js";
import { matrix } from "./matrix.js";
import { short } from "./numbers.js";
import { Store } from "./store.js";
import { strips } from "./strip.js";
import { palette, systemTheme, themeButton } from "./theme.js";
import { Trace } from "./trace.js";
import { tree } from "./tree.js";
import { worth } from "./worth.js";

/** Draw a trace (as JSON from Python) into an element; return {trace, store} for whoever wants to steer it. */
export function draw(data, root, title) {
  systemTheme();
  const trace = new Trace(data);
  const store = new Store({
    unit: "token",
    heads: [openingHead(trace)],
    step: 0,
    lastStep: Math.max(0, trace.steps.length - 1),
    picture: "lines",
    pointed: null,
    pinned: null,
    met: null,
    playing: false,
    palette: palette(),
    width: 0,
    ...fromAddress(trace),
  });
  root.append(header(store, title), sentence(trace, store), workbench(trace, store), ...below(trace, store), footer(trace));
  new ResizeObserver(() => store.set({ width: root.clientWidth })).observe(root);
  store.set({ width: root.clientWidth });
  document.addEventListener("keydown", (event) => keys(event, trace, store));
  remember(store);
  return { trace, store };
}

/** The first head of the last layer that links what is written to what was read. */
function openingHead({ attentions }) {
  const crossing = attentions.filter(({ kind }) => kind.endsWith("cross_attention"));
  return { name: (crossing.length > 0 ? crossing : attentions).at(-1).name, head: 0 };
}

function header(store, title) {
  const choice = switcher(store, "unit", "Show", { token: "Tokens", word: "Words" });
  const about = title === null ? null : element("p", { class: "title", dir: "auto" }, title);
  return element("header", {}, element("h1", {}, "Sightline"), about, element("div", { class: "tools" }, choice, themeButton(store)));
}

/** Buttons of which one is on. */
function switcher(store, entry, label, options) {
  const buttons = Object.entries(options).map(([value, name]) => button(name, () => store.set({ [entry]: value }), { "data-value": value }));
  store.watch([entry], (state) => buttons.forEach((node) => node.setAttribute("aria-pressed", String(node.dataset.value === state[entry]))));
  return element("div", { class: "switcher", role: "group", "aria-label": label }, ...buttons);
}

function sentence(trace, store) {
  return element("section", { id: "sentence", "aria-label": "The sentence" }, strips(trace, store));
}

function workbench(trace, store) {
  const heading = element("h2", { id: "attention-title" });
  store.watch(["heads"], ({ heads }) => {
    heading.textContent = heads.length === 1 ? trace.title(heads[0]) : `Mean of ${heads.length} heads: ${heads.map((head) => trace.title(head)).join("; ")}`;
  });
  const [asLines, asMatrix] = [element("div"), element("div")];
  store.watch(["picture"], ({ picture }) => {
    asLines.hidden = picture !== "lines";
    asMatrix.hidden = picture !== "matrix";
  });
  asLines.append(lines(trace, store));
  asMatrix.append(matrix(trace, store));
  const bar = element("div", { class: "bar-row" }, heading, switcher(store, "picture", "Picture", { lines: "Lines", matrix: "Matrix" }));
  const left = element("section", { id: "attention", "aria-labelledby": "attention-title" }, bar, asLines, asMatrix);
  const all = section("glance", "All heads at a glance", "Each small square is one head, layers down, heads across: its rows look at its columns, the stronger the colour, the more. Click one to open it, shift-click to add it.", glance(trace, store));
  if (trace.steps.length === 0) return element("div", {}, left, all);
  const right = element("section", { id: "film", "aria-label": "Step by step" }, film(trace, store));
  return element("div", { class: "workbench" }, left, right, all);
}

function below(trace, store) {
  const parts = [];
  if (trace.alignment !== null && trace.alignment.links.length > 0) {
    parts.push(section("alignment", "Which word looked at which", "The strongest looks between whole words.", alignment(trace, store)));
  }
  if (trace.tree !== null && trace.tree.nodes.length > 0) {
    parts.push(section("tree", "The beam", "Every beginning the search kept in mind, step by step. The bar under a token is its probability; the way to the result runs along the top.", tree(trace, store)));
  }
  if (trace.readout !== null && trace.steps.length > 0) {
    parts.push(section("lens", "What it would say after each layer", "The hidden state after each layer, read as if it were the last. Early layers were never trained to be read this way.", lens(trace, store)));
  }
  if (trace.effects !== null && trace.steps.length > 0) {
    parts.push(section("worth", "What each head is worth", "Silence one head and see how much less likely the output becomes. Below zero, the head spoke for this output.", worth(trace, store)));
  }
  return parts;
}

function footer({ family, model, steps, sightline, knocked_out: silent }) {
  const sizes = Object.entries(model).filter(([name, value]) => /^(d_|n_)|norm_order|positions$/.test(name) && value !== null);
  const facts = sizes.map(([name, value]) => `${name} ${value}`).join(" · ");
  const sum = steps.reduce((all, step) => all + step.log_probability, 0);
  const quiet = Object.entries(silent).map(([name, heads]) => `${name} heads ${heads.join(", ")}`).join("; ");
  return element("footer", {},
    element("p", {}, `${family}: ${facts}${steps.length > 0 ? ` · log-probability of the output ${short(sum)}` : ""}`),
    quiet === "" ? null : element("p", {}, `Silenced throughout: ${quiet}`),
    element("p", {}, `Layers and heads are counted from 0, as in the code. Keys: ← → step, space plays, L lines, M matrix, W words or tokens, Esc back. Made by Sightline ${sightline}, from this model on this text.`));
}

function keys(event, trace, store) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const busy = event.target instanceof Element && event.target.closest("input, summary, button, [role=button]") !== null;
  const { unit } = store.state;
  const acts = {
    ArrowLeft: () => go(trace, store, -1),
    ArrowRight: () => go(trace, store, 1),
    l: () => store.set({ picture: "lines" }),
    m: () => store.set({ picture: "matrix" }),
    w: () => store.set({ unit: unit === "word" ? "token" : "word" }),
    Escape: () => back(store),
    ...(busy ? {} : { " ": () => play(trace, store) }),
  };
  const act = acts[event.key];
  if (act === undefined || (busy && event.target.type === "range")) return;
  event.preventDefault();
  act();
}

/** One level up: let go of the token, then of the heads that were added, then back to all heads. */
function back(store) {
  const { pinned, heads, playing } = store.state;
  if (playing) store.set({ playing: false });
  else if (pinned !== null) store.set({ pinned: null });
  else if (heads.length > 1) store.set({ heads: [heads[0]] });
  else document.querySelector(".tile[aria-pressed=true]")?.focus();
}
