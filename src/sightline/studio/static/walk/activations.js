// The numbers of a stage: activations and parameters of the model, fetched when a stage needs them and cached; and the context
// of a stage, which of them it shows: layer, head, query token, key token and dimension.

const HEADED = /\.(query|key|value|scores|scaled|masked|weights|head_outputs)$/;
const MAX_AT_ONCE = 1_000_000; // size of one attention matrix of all heads; beyond it, heads are fetched one by one

/** Activations and parameters by name; simultaneous needs are one request. */
export class Activations {
  constructor(fetchBytes, model, trace) {
    const ids = (sequence) => trace[sequence].tokens.map(({ id }) => id);
    const segments = trace.model.n_segments > 0 ? trace.source.tokens.map(({ segment }) => segment) : [];
    this.body = { model, source: towersOf(trace).includes("encoder") ? ids("source") : [], inputs: ids("inputs"), segments };
    const longest = Math.max(trace.source.tokens.length, trace.inputs.tokens.length);
    this.single = trace.model.n_heads * longest ** 2 > MAX_AT_ONCE;
    this.nHeads = trace.model.n_heads;
    this.fetchBytes = fetchBytes;
    this.arrays = new Map();
    this.coming = new Map();
    this.ended = new AbortController();
    this.next = null;
  }

  /** Wait for activations by name, rows of parameters, and the logits at a row. */
  async need({ names = [], weights = [], row = null, head }) {
    const keys = [...names.map((name) => this.key(name, head)), ...weights.map(([name, at]) => `${name}[${at}]`), ...(row === null ? [] : [`logits@${row}`])];
    await Promise.all(keys.filter((key) => !this.arrays.has(key)).map((key) => this.coming.get(key) ?? this.order(key)));
  }

  /** Fetch one key, together with all others requested in the same tick. */
  order(key) {
    this.next ??= { keys: [], done: Promise.resolve().then(() => this.fetch()) };
    this.next.keys.push(key);
    this.coming.set(key, this.next.done);
    return this.next.done;
  }

  async fetch() {
    const { keys } = this.next;
    this.next = null;
    const groups = Map.groupBy(keys.map((key) => /^([^#@[]+)([#@[]?)(\d*)/.exec(key)), ([, , mark, at]) => mark + at);
    try {
      await Promise.all([...groups.values()].map((found) => this.fetchGroup(found)));
    } finally {
      for (const key of keys) this.coming.delete(key);
    }
  }

  /** Fetch keys of one kind: of one head, of one row, or whole. */
  async fetchGroup(found) {
    const [[, , mark, at]] = found;
    const names = found.map(([, name]) => name);
    const what = {
      "": () => ({ activations: names }),
      "#": () => ({ activations: names, head: Number(at) }),
      "@": () => ({ row: Number(at) }),
      "[": () => ({ weights: Object.fromEntries(names.map((name) => [name, Number(at)])) }),
    }[mark]();
    const bytes = await this.fetchBytes("/studio-api/activations", { ...this.body, ...what }, { signal: this.ended.signal });
    for (const [name, array] of tensors(bytes)) this.arrays.set(mark === "" ? name : `${name}${mark}${at}${mark === "[" ? "]" : ""}`, array);
  }

  key(name, head) {
    return this.single && HEADED.test(name) ? `${name}#${head}` : name;
  }

  /** Return an activation as a matrix {rows, columns, data}, of one head if it has heads. Keys and values may be shared by heads. */
  matrix(name, head) {
    const array = this.arrays.get(this.key(name, head));
    const [rows, columns] = array.shape.slice(-2);
    const at = array.shape.length === 2 || array.shape[0] === 1 ? 0 : Math.floor((head * array.shape[0]) / this.nHeads);
    array.cut ??= []; // the same object each time, so that its canvas can be cached
    array.cut[at] ??= { rows, columns, data: array.data.subarray(at * rows * columns, (at + 1) * rows * columns) };
    return array.cut[at];
  }

  /** Return a row of a parameter, or undefined if it is not loaded. */
  weight(name, at) {
    return this.arrays.get(`${name}[${at}]`)?.data;
  }

  logits(row) {
    return this.arrays.get(`logits@${row}`).data;
  }

  end() {
    this.ended.abort();
  }
}

/** Yield the arrays of a safetensors file of 32-bit floats: [name, {shape, data}]. */
function* tensors(bytes) {
  const length = Number(new DataView(bytes).getBigUint64(0, true));
  const entries = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, length)));
  for (const [name, { shape, data_offsets: [start, end] }] of Object.entries(entries)) {
    if (name !== "__metadata__") yield [name, { shape, data: new Float32Array(bytes.slice(8 + length + start, 8 + length + end)) }];
  }
}

const TOWERS = { Seq2Seq: ["encoder", "decoder"], CausalLM: ["decoder"], TextEncoder: ["encoder"] };

/** Return the towers of attention blocks that a text passes through; none in a model of another kind. */
export function towersOf({ interface: kind, model }) {
  return model.n_heads > 0 && model.d_ff > 0 ? TOWERS[kind] ?? [] : [];
}

/** Whether the decoder attends to an encoder. */
export function hasCrossAttention(trace) {
  return towersOf(trace).length === 2;
}

/** Return the number of layers of a tower. */
export function nLayers({ model }, tower) {
  return model.n_layers ?? model[`n_${tower}_layers`];
}

/** Return the number of layers to choose from. */
export function depth(trace) {
  return Math.max(...["encoder", "decoder"].map((tower) => nLayers(trace, tower) ?? 0));
}

const texts = new WeakMap();

/** The token texts of a sequence, as the same array each time. */
function textsOf(sequence) {
  if (!texts.has(sequence)) texts.set(sequence, sequence.tokens.map(({ text }) => text));
  return texts.get(sequence);
}

/** The width of one head. */
export function headWidth(model) {
  return model.d_head ?? model.d_model / model.n_heads;
}

/** Whether a kind of layers has biases: by its own setting, or by that of all. */
export function hasBias(model, setting) {
  return model[setting] ?? model.bias;
}

/** What a stage shows, by the state of the view: its names, numbers and panels. */
export class Context {
  constructor(activations, trace, state, { tower, sub }) {
    const cross = sub === "cross_attention";
    Object.assign(this, { activations, trace, state, tower, sub, m: trace.model, head: state.head });
    this.count = nLayers(trace, tower);
    this.layer = Math.min(state.layer, this.count - 1);
    this.p = `${tower}.${this.layer}.${sub}`;
    [this.E, this.D] = [this.m.d_model, headWidth(this.m)];
    this.sequence = tower === "encoder" ? "source" : "inputs";
    this.keySequence = cross ? "source" : this.sequence;
    this.rowNames = textsOf(trace[this.sequence]);
    this.keyNames = textsOf(trace[this.keySequence]);
    this.row = Math.min(tower === "encoder" ? state.token : state.row, this.rowNames.length - 1);
    [this.j, this.d] = [state.number % this.E, state.number % this.D];
    this.post = !this.m.pre_norm;
    this.result = this.post ? "norm" : "residual"; // the hook point of a sublayer that feeds the next one
  }

  /** The residual stream that enters the sublayer. */
  get enters() {
    const before = { cross_attention: "self_attention", feed_forward: this.tower === "decoder" && hasCrossAttention(this.trace) ? "cross_attention" : "self_attention" }[this.sub];
    if (before !== undefined) return `${this.tower}.${this.layer}.${before}.${this.result}`;
    return this.layer === 0 ? `${this.tower}.embedding.output` : `${this.tower}.${this.layer - 1}.feed_forward.${this.result}`;
  }

  /** The input of the sublayer: the norm in a pre-norm model. */
  get reads() {
    return this.post ? this.enters : `${this.p}.norm`;
  }

  get beforeNorm() {
    return this.post ? `${this.p}.residual` : this.enters;
  }

  /** The outputs of all layers of a tower, and of its final norm. */
  outputs(tower = this.tower) {
    const layers = Array.from({ length: nLayers(this.trace, tower) }, (_, layer) => `${tower}.${layer}.feed_forward.${this.result}`);
    return this.post ? layers : [...layers, `${tower}.final_norm`];
  }

  get encoderOutput() {
    return this.outputs("encoder").at(-1);
  }

  points(...names) {
    return names.map((name) => `${this.p}.${name}`);
  }

  M(name) {
    return this.activations.matrix(name, this.head);
  }

  at(point) {
    return this.M(`${this.p}.${point}`);
  }

  /** The key: the selected one, else the one with the largest weight. */
  get key() {
    const { key } = this.state;
    if (key !== null && key.sequence === this.keySequence && key.index < this.keyNames.length) return key.index;
    if (!this.activations.arrays.has(this.activations.key(`${this.p}.weights`, this.head))) return Math.min(this.row, this.keyNames.length - 1);
    const { columns, data } = this.at("weights");
    const row = data.subarray(this.row * columns, (this.row + 1) * columns);
    return row.indexOf(Math.max(...row));
  }

  cell(point) {
    const { columns, data } = this.at(point);
    return data[this.row * columns + this.key];
  }

  /** A panel of whole vectors, one row per token. */
  full(name, title, idea, more = {}) {
    const matrix = name.includes(".") ? this.M(name) : this.at(name);
    return { title, idea, matrix, rowNames: this.rowNames, row: this.row, column: this.j, sequences: [this.sequence], picks: "number", ...more };
  }

  /** The parameter name of a part of the sublayer. */
  module(name) {
    return `${this.tower}.layers.${this.layer}.${this.sub}.${name}`;
  }

  normNeeds(name, kind = this.m.norm, biased = hasBias(this.m, "norm_bias")) {
    return [[`${name}.weight`, this.j], ...(kind === "layer" && biased ? [[`${name}.bias`, this.j]] : [])];
  }

  /** The step predicted by the selected row, or the first step. */
  get step() {
    const at = this.trace.steps.findIndex(({ row }) => row === this.row);
    return Math.max(0, at);
  }
}
