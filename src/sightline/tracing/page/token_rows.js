// Lay out two rows of units with lines between them: horizontal if they fit the width, else vertical.

import { svg } from "./dom.js";
import { clip, isRightToLeft } from "./token_text.js";

export const FAMILY = 'system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif';
const GAP = 6;
const DEPTH = 190;
const MIN_WIDTH = 200;
const ruler = document.createElement("canvas").getContext("2d");
const widths = new Map();

/** Return the boxes of the units of two rows within a width: {flat, width, height, top, bottom, font}. */
export function layout(columns, rows, room) {
  const width = Math.max(MIN_WIDTH, room); // the window may have no width yet
  const font = fontOf(13);
  const top = sizes(columns.units, font);
  const bottom = sizes(rows.units, font);
  const widest = Math.max(total(top), total(bottom));
  if (widest <= width) {
    const height = DEPTH + 52;
    return { flat: true, width, height, font, top: across(top, columns, width, 2), bottom: across(bottom, rows, width, height - 28) };
  }
  const longest = Math.max(columns.units.length, rows.units.length);
  const pitch = Math.max(12, Math.min(26, Math.floor(660 / longest)));
  const small = fontOf(Math.min(13, pitch - 1));
  const inner = width - 16; // the scroll bar
  const side = Math.min(150, inner * 0.34);
  return {
    flat: false,
    width: inner,
    height: longest * pitch + 4,
    font: small,
    top: down(columns.units, small, pitch, (size) => Math.max(0, side - size), side),
    bottom: down(rows.units, small, pitch, () => inner - side, side),
  };
}

/** Draw the units of a row; the font is inherited. */
export function drawRow(boxes, units, row) {
  return units.map((unit, number) => {
    const { x, y, width, height } = boxes[number];
    const text = svg("text", { x: x + width / 2, y: y + height / 2 }, clip(unit.text, 14));
    const box = svg("rect", { x, y, width, height, rx: Math.min(6, height / 4) });
    return svg("g", { class: unit.special ? "unit special" : "unit", "data-unit": number, "data-row": row }, box, text);
  });
}

/** Return the path from a unit of the bottom (or right) row to one of the top (or left). */
export function curve(from, to, flat) {
  if (flat) {
    const [x0, y0, x1, y1] = [from.x + from.width / 2, from.y, to.x + to.width / 2, to.y + to.height];
    const middle = (y0 + y1) / 2;
    return `M${one(x0)} ${one(y0)}C${one(x0)} ${one(middle)} ${one(x1)} ${one(middle)} ${one(x1)} ${one(y1)}`;
  }
  const [x0, y0, x1, y1] = [from.x, from.y + from.height / 2, to.x + to.width, to.y + to.height / 2];
  const middle = (x0 + x1) / 2;
  return `M${one(x0)} ${one(y0)}C${one(middle)} ${one(y0)} ${one(middle)} ${one(y1)} ${one(x1)} ${one(y1)}`;
}

/** Return the width of a text in a font. */
export function textWidth(text, font) {
  const key = `${font}\n${text}`;
  if (!widths.has(key)) {
    ruler.font = font;
    widths.set(key, ruler.measureText(text).width);
  }
  return widths.get(key);
}

export function fontOf(size, weight = 500) {
  return `${weight} ${size}px ${FAMILY}`;
}

function sizes(units, font) {
  return units.map((unit) => Math.max(22, Math.ceil(textWidth(clip(unit.text, 14), font)) + 14));
}

function total(wide) {
  return wide.reduce((sum, width) => sum + width + GAP, -GAP);
}

function across(wide, { text }, width, y) {
  let x = Math.max(0, (width - total(wide)) / 2);
  const boxes = wide.map((size) => {
    const box = { x, y, width: size, height: 26 };
    x += size + GAP;
    return box;
  });
  return isRightToLeft(text) ? boxes.map((box) => ({ ...box, x: width - box.x - box.width })) : boxes;
}

function down(units, font, pitch, xOf, side) {
  return units.map((unit, number) => {
    const width = Math.min(side, Math.ceil(textWidth(clip(unit.text, 14), font)) + 10);
    return { x: xOf(width), y: 2 + number * pitch, width, height: pitch - (pitch > 18 ? 3 : 1) };
  });
}

function one(number) {
  return Math.round(number * 10) / 10;
}
