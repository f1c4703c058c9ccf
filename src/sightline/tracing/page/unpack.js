// Unpack arrays from Python: plain numbers, or base64 or bytes of little-endian 16-, 24- or 32-bit floats or of fourth roots.

/** Return {shape, data: Float32Array}; null in a list of numbers is minus infinity. */
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
