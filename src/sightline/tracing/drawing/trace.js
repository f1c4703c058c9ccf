// A trace as the views ask for it: units (tokens or words), weights between them, which row a step is.

import { unpack } from "./packed.js";

const KINDS = {
  "encoder.self_attention": "Encoder self-attention",
  "decoder.self_attention": "Decoder self-attention",
  "decoder.cross_attention": "Cross-attention",
};

export class Trace {
  constructor(data) {
    Object.assign(this, data);
    this.attentions = [];
    this.arrays = new Map();
    for (const [name, array] of Object.entries(data.probes)) {
      if (!name.endsWith(".weights")) continue;
      this.arrays.set(name.slice(0, -".weights".length), unpack(array));
      this.attentions.push(attentionOf(name.slice(0, -".weights".length)));
    }
    this.effects = data.knockouts && { ...data.knockouts, steps: unpack(data.knockouts.steps) };
    this.cache = new Map();
  }

  /** The attention layers by kind, in order: [{kind, title, layers}]. */
  get kinds() {
    const kinds = [...new Set(this.attentions.map((attention) => attention.kind))];
    return kinds.map((kind) => ({
      kind,
      title: KINDS[kind] ?? kind,
      layers: this.attentions.filter((attention) => attention.kind === kind),
    }));
  }

  attention(name) {
    return this.attentions.find((attention) => attention.name === name);
  }

  nHeads(name) {
    return this.arrays.get(name).shape[0];
  }

  /** The number of a head in the model: arrays may hold only some. */
  headNumber(index) {
    return this.heads === null ? index : this.heads[index];
  }

  /** How a head is called: its kind, layer and number. */
  title({ name, head }) {
    return titleOf(name, this.headNumber(head));
  }

  /** The passages at the rows and at the columns of an attention. */
  axes(name) {
    const { kind, tower } = this.attention(name);
    if (kind.endsWith("cross_attention")) return ["target", "source"];
    return tower === "encoder" ? ["source", "source"] : ["inputs", "inputs"];
  }

  /** The units of a passage: [{text, tokens, special}]. */
  units(passage, unit) {
    return this.once(`units ${passage} ${unit}`, () =>
      unit === "word" && this.words !== undefined
        ? this.words[passage]
        : this[passage].tokens.map((token, place) => ({ text: token.text, tokens: [place], special: token.special })),
    );
  }

  /** Which unit a token is part of. */
  unitOf(passage, place, unit) {
    if (unit === "token" || this.words === undefined) return place;
    return this.once(`owners ${passage}`, () => ownersOf(this.words[passage], this[passage].tokens.length))[place];
  }

  /** The weights of one head: {rows, columns, data}; a word receives what its tokens do, and looks as they do on average. */
  weights({ name, head }, unit) {
    const { shape, data } = this.arrays.get(name);
    const [, rows, columns] = shape;
    const plain = { rows, columns, data: data.subarray(head * rows * columns, (head + 1) * rows * columns) };
    if (unit === "token") return plain;
    return this.once(`weights ${name} ${head}`, () => {
      const [rowPassage, columnPassage] = this.axes(name);
      return joined(plain, this.units(rowPassage, unit), this.units(columnPassage, unit));
    });
  }

  /** The weight of one head between two units, without the rest of the matrix. */
  between({ name, head }, unit, row, column) {
    const { shape: [, rows, columns], data } = this.arrays.get(name);
    const [rowPassage, columnPassage] = this.axes(name);
    const { tokens } = this.units(rowPassage, unit)[row];
    const looked = this.units(columnPassage, unit)[column].tokens;
    let sum = 0;
    for (const t of tokens) for (const s of looked) sum += data[(head * rows + t) * columns + s];
    return sum / tokens.length;
  }

  /** The weights of several heads of one kind, averaged. */
  mean(heads, unit) {
    if (heads.length === 1) return this.weights(heads[0], unit);
    const all = heads.map((head) => this.weights(head, unit));
    const data = new Float32Array(all[0].data.length);
    for (const one of all) one.data.forEach((weight, i) => (data[i] += weight / all.length));
    return { ...all[0], data };
  }

  /** The row of an attention that decided a step; null where the step was decided elsewhere. */
  rowOfStep(name, step) {
    if (this.steps.length === 0) return null;
    const { tower } = this.attention(name);
    return (tower === "encoder") === (this.family === "bert") ? this.steps[step].row : null;
  }

  /** One name for a token that stands in several passages: what was read at a row is what was written before it. */
  same({ passage, place }) {
    if (passage !== "inputs") return { passage, place };
    const nBefore = this.family === "gpt" ? this.source.tokens.length : 1;
    if (place >= nBefore) return { passage: "target", place: place - nBefore };
    return this.family === "gpt" ? { passage: "source", place } : { passage, place };
  }

  /** Where a token (by its one name) stands in a passage; null where it does not. */
  placeIn(passage, token) {
    if (token === null) return null;
    if (token.passage === passage) return token.place;
    if (passage !== "inputs") return null;
    const nBefore = this.family === "gpt" ? this.source.tokens.length : 1;
    const place = token.passage === "target" ? token.place + nBefore : this.family === "gpt" ? token.place : -1;
    return place >= 0 && place < this.inputs.tokens.length ? place : null;
  }

  once(key, make) {
    if (!this.cache.has(key)) this.cache.set(key, make());
    return this.cache.get(key);
  }
}

/** How a head is called, from the name of its attention and its own number. */
export function titleOf(name, number) {
  const { kind, layer } = attentionOf(name);
  return `${KINDS[kind] ?? kind}, layer ${layer}, head ${number}`;
}

function attentionOf(name) {
  const [tower, layer, sublayer] = name.split(".");
  return { name, tower, layer: Number(layer), kind: `${tower}.${sublayer}` };
}

function joined({ rows, columns, data }, rowUnits, columnUnits) {
  const [rowOwner, columnOwner] = [ownersOf(rowUnits, rows), ownersOf(columnUnits, columns)];
  const width = columnUnits.length;
  const sums = new Float64Array(rowUnits.length * width);
  for (let t = 0, at = 0; t < rows; t++) {
    const start = rowOwner[t] * width;
    const share = 1 / rowUnits[rowOwner[t]].tokens.length;
    for (let s = 0; s < columns; s++, at++) sums[start + columnOwner[s]] += data[at] * share;
  }
  return { rows: rowUnits.length, columns: width, data: new Float32Array(sums) };
}

/** For each token the number of the unit it is part of. */
function ownersOf(units, nTokens) {
  const owners = new Uint32Array(nTokens);
  units.forEach((unit, number) => unit.tokens.forEach((token) => (owners[token] = number)));
  return owners;
}
