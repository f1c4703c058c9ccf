// Making elements. Texts only ever become text nodes, so that no token can become markup.

const SVG = "http://www.w3.org/2000/svg";

/** Make an HTML element; `on` holds listeners, `style` custom properties, all else are attributes. */
export function element(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** Make an SVG element. */
export function svg(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

/** Make a button that says what it does. */
export function button(label, act, properties = {}) {
  return element("button", { type: "button", ...properties, on: { click: act } }, label);
}

/** Make the mark of what was chosen. */
export function tick() {
  return element("span", { class: "tick" }, "✓\u00a0");
}

/** Make the name of a role, its colour before it. */
export function role(kind, name) {
  return element("span", { class: `role ${kind}` }, element("i", { class: "dot", "aria-hidden": "true" }), name);
}

/** Make a part of the page: a heading, a sentence that says what it shows, and the picture. */
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

function filled(node, { on = {}, style = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  for (const [name, value] of Object.entries(style)) node.style.setProperty(name, value);
  for (const [name, listener] of Object.entries(on)) node.addEventListener(name, listener);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
