// Activations and parameters of the model, fetched when a stage needs them and cached; simultaneous needs are one request.

const HEADED = /\.(query|key|value|scores|scaled|masked|weights|head_outputs)$/;
const MAX_AT_ONCE = 1_000_000; // size of one attention matrix of all heads; beyond it, heads are fetched one by one

export class Activations {
  constructor(fetchBytes, model, trace) {
    const ids = (sequence) => trace[sequence].tokens.map(({ id }) => id);
    const reads = trace.family !== "gpt";
    const segments = trace.family === "bert" ? trace.source.tokens.map(({ segment }) => segment) : [];
    this.body = { model, source: reads ? ids("source") : [], inputs: ids("inputs"), segments };
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
