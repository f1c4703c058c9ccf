// Values of the model, fetched as bytes when a stage needs them, and kept. What several stages want at once is one request.

const HEADED = /\.(query|key|value|scores|scaled|masked|weights|mixed)$/;
const MOST_AT_ONCE = 1_000_000; // numbers of one square of all heads; beyond it heads come one by one

export class Slices {
  constructor(askBytes, model, trace) {
    const ids = (passage) => trace[passage].tokens.map(({ id }) => id);
    const reads = trace.family !== "gpt";
    const segments = trace.family === "bert" ? trace.source.tokens.map(({ segment }) => segment) : [];
    this.body = { model, source: reads ? ids("source") : [], inputs: ids("inputs"), segments };
    const longest = Math.max(trace.source.tokens.length, trace.inputs.tokens.length);
    this.single = trace.model.n_heads * longest ** 2 > MOST_AT_ONCE;
    this.nHeads = trace.model.n_heads;
    this.askBytes = askBytes;
    this.arrays = new Map();
    this.ended = new AbortController();
    this.next = null;
  }

  /** Fetch what is missing: points by name, rows of parameters, and the scores of all tokens at a row. */
  async need({ names = [], weights = [], row = null, head }) {
    const missing = [...names.map((name) => this.key(name, head)), ...weights.map(([name, at]) => `${name}[${at}]`)];
    if (row !== null) missing.push(`logits@${row}`);
    const wanted = missing.filter((key) => !this.arrays.has(key));
    if (wanted.length === 0) return;
    this.next ??= { wanted: new Set(), done: Promise.resolve().then(() => this.fetch()) };
    for (const key of wanted) this.next.wanted.add(key);
    await this.next.done;
  }

  async fetch() {
    const { wanted } = this.next;
    this.next = null;
    const groups = new Map(); // one request for each head, each row, each row of parameters
    for (const key of wanted) {
      const [, name, mark, at] = /^([^#@[]+)([#@[]?)(\d*)/.exec(key);
      const group = mark + at;
      if (!groups.has(group)) groups.set(group, { probes: [], weights: {}, names: new Map() });
      const { probes, weights, names } = groups.get(group);
      names.set(name, key);
      if (mark === "[") weights[name] = Number(at);
      else if (mark !== "@") probes.push(name);
    }
    await Promise.all([...groups].map(async ([group, { probes, weights, names }]) => {
      const one = { "#": { head: Number(group.slice(1)) }, "@": { row: Number(group.slice(1)) } }[group[0]] ?? {};
      const bytes = await this.askBytes("/studio-api/walk", { ...this.body, probes, weights, ...one }, { signal: this.ended.signal });
      for (const [name, array] of tensors(bytes)) this.arrays.set(names.get(name), array);
    }));
  }

  key(name, head) {
    return this.single && HEADED.test(name) ? `${name}#${head}` : name;
  }

  /** Return a point as a matrix {rows, columns, data}; where it has heads, that of one. Keys may be shared by several. */
  matrix(name, head) {
    const array = this.arrays.get(this.key(name, head));
    const [rows, columns] = array.shape.slice(-2);
    const at = array.shape.length === 2 || array.shape[0] === 1 ? 0 : Math.floor((head * array.shape[0]) / this.nHeads);
    array.cut ??= []; // the same object each time, so that what is drawn of it can be kept
    array.cut[at] ??= { rows, columns, data: array.data.subarray(at * rows * columns, (at + 1) * rows * columns) };
    return array.cut[at];
  }

  /** Return a row of a parameter; undefined while it is not here. */
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
