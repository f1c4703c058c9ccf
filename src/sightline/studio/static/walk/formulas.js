// Formulas with the actual numbers, as lines of text.

import { quote, short } from "/page/text.js";
import { hasBias } from "./activations.js";

const SHOWN = 4;

/** A number inside a formula, in parentheses if negative. */
export function inside(number) {
  return number < 0 ? `(${short(number)})` : short(number);
}

/** The row of a matrix. */
export function rowOf({ columns, data }, row) {
  return data.subarray(row * columns, (row + 1) * columns);
}

/** Σ a·b with its first terms. */
export function products(a, b) {
  const terms = Array.from(a.slice(0, SHOWN), (value, at) => `${short(value)}·${inside(b[at])}`);
  return a.length > SHOWN ? `${terms.join(" + ")} + … (${a.length} products)` : terms.join(" + ");
}

/** The same with the largest terms, labeled: for sums over tokens. */
export function namedProducts(a, b, names) {
  const order = Array.from(a, (_, at) => at).sort((one, other) => a[other] - a[one]);
  const terms = order.slice(0, SHOWN).map((at) => `${short(a[at])}·${inside(b[at])} ${names[at]}`);
  return a.length > SHOWN ? `${terms.join(" + ")} + … (${a.length} products, the largest weights first)` : terms.join(" + ");
}

/** One output of a linear layer: {lines, value}, or null if its weights are not loaded. */
export function linear(c, name, at, x, symbol) {
  const weight = c.activations.weight(`${name}.weight`, at);
  if (weight === undefined) return null;
  const [bias] = c.activations.weight(`${name}.bias`, at) ?? [0];
  let value = bias;
  for (let i = 0; i < x.length; i++) value += x[i] * weight[i];
  const plus = bias === 0 ? "" : ` + ${inside(bias)} (bias)`;
  return { value, lines: [`${symbol} = x · column ${at} of W = ${products(x, weight)}${plus} = ${short(value)}`] };
}

/** The parameter rows that one output of a linear layer needs. */
export function needs(c, name, at, biased) {
  return [[`${name}.weight`, at], ...(biased ? [[`${name}.bias`, at]] : [])];
}

/** The formula of a norm: without a mean where only the root mean square counts, with a shift where there is one. */
export function normFormula(model, kind = model.norm, shifted = hasBias(model, "norm_bias")) {
  return kind === "rms" ? "norm(x) = x ÷ root mean square · gain" : `norm(x) = (x − mean) ÷ deviation · gain${shifted ? " + shift" : ""}`;
}

/** The norm of one vector, step by step. */
export function normLines(c, name, x, j, result, epsilon = c.m.norm_eps, kind = c.m.norm) {
  const mean = kind === "rms" ? 0 : x.reduce((sum, value) => sum + value, 0) / x.length;
  const spread = Math.sqrt(x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length + epsilon);
  const [gain] = c.activations.weight(`${name}.weight`, j) ?? [];
  const [shift = null] = c.activations.weight(`${name}.bias`, j) ?? [];
  const plain = (x[j] - mean) / spread;
  const first = kind === "rms"
    ? `root mean square of the ${x.length} numbers: ${short(spread)}`
    : `mean of the ${x.length} numbers: ${short(mean)}; standard deviation: ${short(spread)}`;
  const second = kind === "rms" ? `${short(x[j])} ÷ ${short(spread)} = ${short(plain)}` : `(${short(x[j])} − ${inside(mean)}) ÷ ${short(spread)} = ${short(plain)}`;
  const learned = gain === undefined ? "" : `${short(plain)} × ${inside(gain)} (learned gain)${shift === null ? "" : ` + ${inside(shift)} (learned shift)`} = `;
  return [first, second, `${learned}${short(result)}`];
}

/** The lines of one output of a linear layer for the selected token. */
export function linearSum(c, name, x, symbol, result) {
  const made = linear(c, name, c.j, x, symbol);
  return [`Dimension ${c.j} for ${quote(c.rowNames[c.row])}:`, ...(made?.lines ?? [`${symbol} = ${short(result)}`])];
}
