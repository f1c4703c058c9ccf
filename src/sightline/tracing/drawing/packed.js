// Arrays as they come from Python: {shape, data} with numbers, or with base64 of little-endian floats of 16, 24 or 32 bits.

/** Return {shape, data: Float32Array}; null in a list of numbers is minus infinity. */
export function unpack(array) {
  if (typeof array.data !== "string") {
    return { shape: array.shape, data: Float32Array.from(array.data, (number) => number ?? -Infinity) };
  }
  const bytes = Uint8Array.from(atob(array.data), (letter) => letter.charCodeAt(0));
  return { shape: array.shape, data: READERS[array.dtype](bytes) };
}

const READERS = {
  float32: (bytes) => new Float32Array(bytes.buffer),
  float24: fromThreeBytes,
  float16: (bytes) => Float32Array.from(new Uint16Array(bytes.buffer), fromHalf),
};

/** The upper three bytes of a 32-bit float: five digits, four letters of base64. */
function fromThreeBytes(bytes) {
  const bits = new Uint32Array(bytes.length / 3);
  for (let i = 0, at = 0; i < bits.length; i++, at += 3) {
    bits[i] = (bytes[at] << 8) | (bytes[at + 1] << 16) | (bytes[at + 2] << 24);
  }
  return new Float32Array(bits.buffer);
}

function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
