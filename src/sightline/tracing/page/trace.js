// A trace, read from JSON or bytes, with what the views need: units (tokens or words), weights between them, the row of each
// step. A sequence is "source", "target" or "inputs", the names of the tokenized texts in the trace.

const KINDS = {
  "encoder.self_attention": "Encoder self-attention",
  "decoder.self_attention": "Decoder self-attention",
  "decoder.cross_attention": "Cross-attention",
};

/** Return the Trace in a text, an object, or an ArrayBuffer. */
export function readTrace(given) {
  if (given instanceof Trace) return given;
  if (typeof given === "string") return new Trace(JSON.parse(given));
  return new Trace(given instanceof ArrayBuffer || ArrayBuffer.isView(given) ? fromBytes(given) : given);
}

/** Parse bytes: the length of the JSON (four bytes), the JSON, then the arrays, described in it by start and length. */
function fromBytes(given) {
  const bytes = given instanceof ArrayBuffer ? new Uint8Array(given) : new Uint8Array(given.buffer, given.byteOffset, given.byteLength);
  const length = new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true);
  const arrays = bytes.subarray(4 + length);
  const withData = (_, value) =>
    value !== null && typeof value === "object" && typeof value.start === "number" && typeof value.length === "number" && Array.isArray(value.shape)
      ? { ...value, data: arrays.subarray(value.start, value.start + value.length) }
      : value;
  return JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)), withData);
}

/** The data of a trace, and what the views ask of it. */
class Trace {
  constructor(data) {
    Object.assign(this, data);
    this.attentions = [];
    this.arrays = new Map();
    for (const [name, array] of Object.entries(data.activations)) {
      if (!name.endsWith(".weights")) continue;
      this.arrays.set(name.slice(0, -".weights".length), unpack(array));
      this.attentions.push(parseAttention(name.slice(0, -".weights".length)));
    }
    this.headAblation = data.head_ablation && { ...data.head_ablation, steps: unpack(data.head_ablation.steps) };
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

  /** The number of a head in the model: arrays may hold only some heads. */
  headNumber(index) {
    return this.heads === null ? index : this.heads[index];
  }

  /** The title of a head: its kind, layer and number. */
  title({ name, head }) {
    return titleOf(name, this.headNumber(head));
  }

  /** The sequences of the rows (queries) and the columns (keys) of an attention. */
  axes(name) {
    const { kind, tower } = this.attention(name);
    if (kind.endsWith("cross_attention")) return ["target", "source"];
    return tower === "encoder" ? ["source", "source"] : ["inputs", "inputs"];
  }

  /** The units of a sequence: [{text, tokens, special}]. */
  units(sequence, unit) {
    return this.once(`units ${sequence} ${unit}`, () =>
      unit === "word" && this.words !== undefined
        ? this.words[sequence]
        : this[sequence].tokens.map((token, index) => ({ text: token.text, tokens: [index], special: token.special })),
    );
  }

  /** The unit that a token is part of. */
  unitOf(sequence, index, unit) {
    if (unit === "token" || this.words === undefined) return index;
    return this.once(`owners ${sequence}`, () => ownersOf(this.words[sequence], this[sequence].tokens.length))[index];
  }

  /** The weights of one head: {rows, columns, data}; summed over the tokens of a key word, averaged over those of a query word. */
  weights({ name, head }, unit) {
    const { shape, data } = this.arrays.get(name);
    const [, rows, columns] = shape;
    const plain = { rows, columns, data: data.subarray(head * rows * columns, (head + 1) * rows * columns) };
    if (unit === "token") return plain;
    return this.once(`weights ${name} ${head}`, () => {
      const [rowSequence, columnSequence] = this.axes(name);
      return aggregateByWord(plain, this.units(rowSequence, unit), this.units(columnSequence, unit));
    });
  }

  /** The weight of one head between two units, without the rest of the matrix. */
  weightBetween({ name, head }, unit, row, column) {
    const { shape: [, rows, columns], data } = this.arrays.get(name);
    const [rowSequence, columnSequence] = this.axes(name);
    const { tokens } = this.units(rowSequence, unit)[row];
    const keys = this.units(columnSequence, unit)[column].tokens;
    let sum = 0;
    for (const t of tokens) for (const s of keys) sum += data[(head * rows + t) * columns + s];
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

  /** The row of an attention that makes the prediction of a step; null if that is in another tower. */
  rowOfStep(name, step) {
    if (this.steps.length === 0) return null;
    return this.attention(name).tower === this.outputTower ? this.steps[step].row : null;
  }

  /** The tower whose rows make the predictions: tokens are generated by a decoder, masks and classes read off an encoder. */
  get outputTower() {
    return this.predicts === "tokens" ? "decoder" : "encoder";
  }

  /** The number of decoder inputs before the target: start and other special tokens, in a causal language model also the source. */
  get nBefore() {
    return this.steps.length > 0 ? this.steps[0].row + 1 : this.inputs.tokens.length;
  }

  /** Whether the decoder reads the source itself, as its first inputs. */
  get readsSource() {
    return this.interface === "CausalLM";
  }

  /** Whether the target continues the text of the source, with nothing between them. */
  get continuesSource() {
    return this.readsSource && this.nBefore === this.source.tokens.length && this.source.tokens.at(-1)?.special !== true; // a start token parts a source and its reply
  }

  /** The canonical position of a token that is in several sequences: an input of the decoder is a token of the target (or source). */
  canonical({ sequence, index }) {
    if (sequence !== "inputs") return { sequence, index };
    if (index >= this.nBefore) return { sequence: "target", index: index - this.nBefore };
    return this.readsSource && index < this.source.tokens.length ? { sequence: "source", index } : { sequence, index };
  }

  /** The index of a token, given by its canonical position, in a sequence; null if it is not there. */
  indexIn(sequence, token) {
    if (token === null) return null;
    if (token.sequence === sequence) return token.index;
    if (sequence !== "inputs") return null;
    const index = token.sequence === "target" ? token.index + this.nBefore : this.readsSource ? token.index : -1;
    return index >= 0 && index < this.inputs.tokens.length ? index : null;
  }

  once(key, make) {
    if (!this.cache.has(key)) this.cache.set(key, make());
    return this.cache.get(key);
  }
}

/** The title of a head, from the name of its attention and its number. */
export function titleOf(name, number) {
  const { kind, layer } = parseAttention(name);
  return `${KINDS[kind] ?? kind}, layer ${layer}, head ${number}`;
}

function parseAttention(name) {
  const [tower, layer, sublayer] = name.split(".");
  return { name, tower, layer: Number(layer), kind: `${tower}.${sublayer}` };
}

function aggregateByWord({ rows, columns, data }, rowUnits, columnUnits) {
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

/** For each token, the index of its unit. */
function ownersOf(units, nTokens) {
  const owners = new Uint32Array(nTokens);
  units.forEach((unit, number) => unit.tokens.forEach((token) => (owners[token] = number)));
  return owners;
}

/**
 * Unpack an array from Python: plain numbers (null is minus infinity), or base64 or bytes of little-endian 16-, 24- or 32-bit
 * floats or of fourth roots. Return {shape, data: Float32Array}.
 */
export function unpack({ shape, dtype, data, causal = false }) {
  if (data instanceof Float32Array) return { shape, data };
  if (Array.isArray(data)) return { shape, data: Float32Array.from(data, (number) => number ?? -Infinity) };
  const numbers = READERS[dtype](typeof data === "string" ? fromBase64(data) : align(data));
  return { shape, data: causal ? fillTriangles(numbers, shape) : numbers };
}

const READERS = {
  float32: (bytes) => new Float32Array(bytes.buffer),
  float24: fromThreeBytes,
  float16: (bytes) => Float32Array.from(new Uint16Array(bytes.buffer), fromHalf),
  root16: fromRoots,
};

function fromBase64(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/** Copy bytes to the start of their own buffer, so that numbers of any width are aligned. */
function align(data) {
  return data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(data).slice();
}

/** The upper three bytes of a 32-bit float: five digits. */
function fromThreeBytes(bytes) {
  const bits = new Uint32Array(bytes.length / 3);
  for (let i = 0, at = 0; i < bits.length; i++, at += 3) {
    bits[i] = (bytes[at] << 8) | (bytes[at + 1] << 16) | (bytes[at + 2] << 24);
  }
  return new Float32Array(bits.buffer);
}

/** Fourth roots in 65,536 steps: four decimal places of a weight. */
function fromRoots(bytes) {
  const roots = new Uint16Array(bytes.buffer);
  const numbers = new Float32Array(roots.length);
  for (let i = 0; i < roots.length; i++) {
    const square = (roots[i] / 65535) * (roots[i] / 65535);
    numbers[i] = square * square;
  }
  return numbers;
}

/** Expand lower triangles, stored row by row, to full matrices. */
function fillTriangles(numbers, [count, side]) {
  const data = new Float32Array(count * side * side);
  for (let k = 0, from = 0, to = 0; k < count; k++) {
    for (let row = 1; row <= side; from += row, to += side, row++) data.set(numbers.subarray(from, from + row), to);
  }
  return data;
}

function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
