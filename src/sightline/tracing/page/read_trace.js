// Read a trace from any form: JSON text, an object, or the bytes of `pack_bytes` in Python.

import { Trace } from "./trace.js";

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
