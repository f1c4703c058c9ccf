// Create elements. Texts only ever become text nodes, so no token can become markup.

const SVG = "http://www.w3.org/2000/svg";

/** Create an HTML element; `on` holds listeners, `style` style properties, everything else attributes. */
export function element(tag, properties = {}, ...children) {
  return setUp(document.createElement(tag), properties, children);
}

/** Create an SVG element. */
export function svg(tag, properties = {}, ...children) {
  return setUp(document.createElementNS(SVG, tag), properties, children);
}

/** Create a button. */
export function button(label, act, properties = {}) {
  return element("button", { type: "button", ...properties, on: { click: act } }, label);
}

/** Create the check mark of the chosen token. */
export function tick() {
  return element("span", { class: "tick" }, "✓\u00a0");
}

/** Create a legend entry: a color and its name. */
export function role(kind, name) {
  return element("span", { class: `role ${kind}` }, element("i", { class: "dot", "aria-hidden": "true" }), name);
}

/** Create a section: a heading, an explanation, and the view. */
export function section(id, title, explanation, ...children) {
  const heading = element("h2", { id: `${id}-title` }, title);
  return element(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    heading,
    element("p", { class: "explanation" }, explanation),
    ...children,
  );
}

/** Replace all children. */
export function fill(parent, ...children) {
  parent.replaceChildren(...children.filter((child) => child !== null));
}

function setUp(node, { on = {}, style = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  for (const [name, value] of Object.entries(style)) node.style.setProperty(name, value);
  for (const [name, listener] of Object.entries(on)) node.addEventListener(name, listener);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
