// The context of a stage: which layer, head, query token, key token and dimension it shows.

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

export class Context {
  constructor(activations, trace, state, { tower, sub }) {
    const cross = sub === "cross_attention";
    Object.assign(this, { activations, trace, state, tower, sub, m: trace.model, head: state.head });
    this.count = nLayers(trace, tower);
    this.layer = Math.min(state.layer, this.count - 1);
    this.p = `${tower}.${this.layer}.${sub}`;
    [this.E, this.D] = [this.m.d_model, this.m.d_model / this.m.n_heads];
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
    const before = { cross_attention: "self_attention", feed_forward: this.tower === "decoder" && this.trace.family === "transformer" ? "cross_attention" : "self_attention" }[this.sub];
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

  normNeeds(name, kind = this.m.norm, biased = this.m.bias) {
    return [[`${name}.weight`, this.j], ...(kind === "layer" && biased ? [[`${name}.bias`, this.j]] : [])];
  }

  /** The step predicted by the selected row, or the first step. */
  get step() {
    const at = this.trace.steps.findIndex(({ row }) => row === this.row);
    return Math.max(0, at);
  }
}
