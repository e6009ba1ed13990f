// What programs in JavaScript share, in Node.js and in a page: arrays as bytes, and bursts of inferences.

// An ONNX file with one Identity.
export const SMALLEST = Uint8Array.from(
  ('08083a370a100a017812017922084964656e746974791201675a0f0a0178120a0a08080112040a020801'
    + '620f0a0179120a0a08080112040a02080142040a00100d').match(/../g), (pair) => parseInt(pair, 16),
);
const ALIGNED = 8;
const VIEWS = {
  float32: Float32Array, float64: Float64Array, float16: globalThis.Float16Array ?? Uint16Array,
  int64: BigInt64Array, int32: Int32Array, int16: Int16Array, int8: Int8Array,
  uint64: BigUint64Array, uint32: Uint32Array, uint16: Uint16Array, uint8: Uint8Array, bool: Uint8Array,
};

// Arrays by name: views of a buffer, see `unpacked` of bench/api/program.py.
export function unpacked(listed, data) {
  const arrays = {};
  let begin = 0;
  for (const { name, dtype, shape } of listed) {
    const size = shape.reduce((product, dim) => product * dim, 1);
    const values = new VIEWS[dtype](data, begin, size);
    arrays[name] = { dtype, shape, values };
    begin += values.byteLength + (ALIGNED - values.byteLength % ALIGNED) % ALIGNED;
  }
  return arrays;
}

// What a header says of some arrays, and their bytes in parts.
export function packed(arrays) {
  const listed = [];
  const parts = [];
  for (const [name, { dtype, shape, values }] of Object.entries(arrays)) {
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    listed.push({ name, dtype, shape });
    parts.push(bytes, new Uint8Array((ALIGNED - bytes.length % ALIGNED) % ALIGNED));
  }
  return [listed, parts];
}

// See `burst` of bench/measure/clock.py; `now` gives nanoseconds.
export async function burst(infer, arrays, plan, now) {
  globalThis.gc?.(); // of what is collected in the burst, as little as can be is of earlier requests
  const cold = [];
  const steady = [];
  let end = now();
  const endWarm = end + plan.warm_ns;
  while (cold.length < plan.min_cold || (end < endWarm && cold.length < plan.max_runs)) {
    const start = now();
    await infer(arrays);
    end = now();
    cold.push(end - start);
  }
  const endBurst = end + plan.target_ns;
  while (steady.length < plan.max_runs) {
    const start = now();
    await infer(arrays);
    end = now();
    steady.push(end - start);
    if (end >= endBurst && steady.length >= plan.min_runs) break;
  }
  return { cold, steady };
}
