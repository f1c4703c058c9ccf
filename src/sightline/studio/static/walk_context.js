// What a stage is about: which points of which layer and head, which token looks, at which key, which number of a vector.

/** Return how many layers a tower has. */
export function nLayers({ model }, tower) {
  return model.n_layers ?? model[`n_${tower}_layers`];
}

/** Return how many layers there are to choose from. */
export function depth(trace) {
  return Math.max(...["encoder", "decoder"].map((tower) => nLayers(trace, tower) ?? 0));
}

const texts = new WeakMap();

/** The texts of a passage's tokens, the same array each time. */
function textsOf(passage) {
  if (!texts.has(passage)) texts.set(passage, passage.tokens.map(({ text }) => text));
  return texts.get(passage);
}

export class Context {
  constructor(slices, trace, state, { tower, sub }) {
    const cross = sub === "cross_attention";
    Object.assign(this, { slices, trace, state, tower, sub, m: trace.model, head: state.head });
    this.count = nLayers(trace, tower);
    this.layer = Math.min(state.layer, this.count - 1);
    this.p = `${tower}.${this.layer}.${sub}`;
    [this.E, this.D] = [this.m.d_model, this.m.d_model / this.m.n_heads];
    this.passage = tower === "encoder" ? "source" : "inputs";
    this.keyPassage = cross ? "source" : this.passage;
    this.rowNames = textsOf(trace[this.passage]);
    this.keyNames = textsOf(trace[this.keyPassage]);
    this.row = Math.min(tower === "encoder" ? state.token : state.row, this.rowNames.length - 1);
    [this.j, this.d] = [state.number % this.E, state.number % this.D];
    this.post = this.m.norm_order === "post";
    this.handed = this.post ? "norm" : "residual"; // the point of a sublayer that the next one gets
  }

  /** What comes to the sublayer. */
  get enters() {
    const before = { cross_attention: "self_attention", feed_forward: this.tower === "decoder" && this.trace.family === "transformer" ? "cross_attention" : "self_attention" }[this.sub];
    if (before !== undefined) return `${this.tower}.${this.layer}.${before}.${this.handed}`;
    return this.layer === 0 ? `${this.tower}.embedding.output` : `${this.tower}.${this.layer - 1}.feed_forward.${this.handed}`;
  }

  /** What it reads of that: the norm, where that comes first. */
  get reads() {
    return this.post ? this.enters : `${this.p}.norm`;
  }

  get beforeNorm() {
    return this.post ? `${this.p}.residual` : this.enters;
  }

  /** What every layer of a tower hands on, and at last the tower. */
  outputs(tower = this.tower) {
    const layers = Array.from({ length: nLayers(this.trace, tower) }, (_, layer) => `${tower}.${layer}.feed_forward.${this.handed}`);
    return this.post ? layers : [...layers, `${tower}.final_norm`];
  }

  get memory() {
    return this.outputs("encoder").at(-1);
  }

  points(...names) {
    return names.map((name) => `${this.p}.${name}`);
  }

  M(name) {
    return this.slices.matrix(name, this.head);
  }

  at(point) {
    return this.M(`${this.p}.${point}`);
  }

  /** The key that is looked at: the chosen one, else the one with the most weight. */
  get key() {
    const { key } = this.state;
    if (key !== null && key.passage === this.keyPassage && key.place < this.keyNames.length) return key.place;
    if (!this.slices.arrays.has(this.slices.key(`${this.p}.weights`, this.head))) return Math.min(this.row, this.keyNames.length - 1);
    const { columns, data } = this.at("weights");
    const row = data.subarray(this.row * columns, (this.row + 1) * columns);
    return row.indexOf(Math.max(...row));
  }

  cell(point) {
    const { columns, data } = this.at(point);
    return data[this.row * columns + this.key];
  }

  /** A panel of whole vectors, a row a token. */
  full(name, title, idea, more = {}) {
    const matrix = name.includes(".") ? this.M(name) : this.at(name);
    return { title, idea, matrix, rowNames: this.rowNames, row: this.row, column: this.j, passages: [this.passage], picks: "number", ...more };
  }

  /** The name of a part of the sublayer among the model's parameters. */
  module(name) {
    return `${this.tower}.layers.${this.layer}.${this.sub}.${name}`;
  }

  normNeeds(name, kind = this.m.norm, biased = this.m.bias) {
    return [[`${name}.weight`, this.j], ...(kind === "layer" && biased ? [[`${name}.bias`, this.j]] : [])];
  }

  /** The decision that the chosen row made; where it made none, the first one. */
  get step() {
    const at = this.trace.steps.findIndex(({ row }) => row === this.row);
    return Math.max(0, at);
  }
}
