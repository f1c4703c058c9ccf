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
    this.coming = new Map();
    this.ended = new AbortController();
    this.next = null;
  }

  /** Wait until all is here: points by name, rows of parameters, and the scores of all tokens at a row. */
  async need({ names = [], weights = [], row = null, head }) {
    const keys = [...names.map((name) => this.key(name, head)), ...weights.map(([name, at]) => `${name}[${at}]`), ...(row === null ? [] : [`logits@${row}`])];
    await Promise.all(keys.filter((key) => !this.arrays.has(key)).map((key) => this.coming.get(key) ?? this.order(key)));
  }

  /** Have one key fetched, together with all others that are ordered at this moment. */
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

  /** Fetch keys of one kind: of one head, or of one row, or whole. */
  async fetchGroup(found) {
    const [[, , mark, at]] = found;
    const names = found.map(([, name]) => name);
    const what = {
      "": () => ({ probes: names }),
      "#": () => ({ probes: names, head: Number(at) }),
      "@": () => ({ row: Number(at) }),
      "[": () => ({ weights: Object.fromEntries(names.map((name) => [name, Number(at)])) }),
    }[mark]();
    const bytes = await this.askBytes("/studio-api/walk", { ...this.body, ...what }, { signal: this.ended.signal });
    for (const [name, array] of tensors(bytes)) this.arrays.set(mark === "" ? name : `${name}${mark}${at}${mark === "[" ? "]" : ""}`, array);
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
