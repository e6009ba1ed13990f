// ONNX Runtime in Node.js: answers the questions of bench/api/program.py on its standard input and output.
// Run as `node worker.mjs FOLDER PACKAGE`, where FOLDER has the packages of package-lock.json, and PACKAGE is
// onnxruntime-node, or onnxruntime-web for WebAssembly.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { SMALLEST, burst, packed, unpacked } from './shared.mjs';

const OUTPUT = 1;
const LENGTHS = 12;
const require = createRequire(path.join(process.argv[2], 'package.json'));
const name = process.argv[3];
const planned = process.env.INFEROMETER_THREADS; // what a worker of a cell says ahead
let ort;
let isLoaded = false;
const sessions = new Map(); // by number: the session, the outputs to give, and the requests that are kept

function readExactly(length) {
  const buffer = new ArrayBuffer(length);
  const view = new Uint8Array(buffer);
  for (let done = 0; done < length;) {
    const count = fs.readSync(0, view, done, length - done, null);
    if (count === 0) process.exit(0); // the worker has ended
    done += count;
  }
  return buffer;
}

function readFrame() {
  const lengths = new DataView(readExactly(LENGTHS));
  const header = JSON.parse(new TextDecoder().decode(readExactly(lengths.getUint32(0, true))));
  const data = readExactly(Number(lengths.getBigUint64(4, true)));
  return [header, unpacked(header.arrays, data)];
}

function writeWhole(bytes) {
  for (let done = 0; done < bytes.length;) done += fs.writeSync(OUTPUT, bytes, done);
}

function writeFrame(header, tensors) {
  const values = Object.entries(tensors).map(([name, { type, dims, data }]) => [name, { dtype: type, shape: dims, values: data }]);
  const [listed, parts] = packed(Object.fromEntries(values));
  header.arrays = listed;
  const text = new TextEncoder().encode(JSON.stringify(header));
  const lengths = new DataView(new ArrayBuffer(LENGTHS));
  lengths.setUint32(0, text.length, true);
  lengths.setBigUint64(4, BigInt(parts.reduce((sum, part) => sum + part.length, 0)), true);
  for (const part of [new Uint8Array(lengths.buffer), text, ...parts]) writeWhole(part);
}

// One inference, host arrays in and host arrays out.
async function infer({ opened, outputs }, arrays) {
  const feeds = {};
  for (const [name, { dtype, shape, values }] of Object.entries(arrays)) {
    feeds[name] = new ort.Tensor(dtype, values, shape);
  }
  return opened.run(feeds, outputs);
}

function openNatively({ artifact, provider, threads }) {
  return ort.InferenceSession.create(artifact, {
    executionProviders: [provider], intraOpNumThreads: threads, interOpNumThreads: 1,
    // As in Python: or its threads would go on spinning after each inference.
    extra: { session: { force_spinning_stop: '1' } },
  });
}

const inWasm = (content) => ort.InferenceSession.create(content, { executionProviders: ['wasm'] });

// Opening a small model compiles the WebAssembly, which then is no part of opening the model.
async function loadWasm(threads) {
  ort.env.wasm.numThreads = threads; // before the first session
  await (await inWasm(SMALLEST)).release();
  const taken = ort.env.wasm.numThreads; // where it cannot have its threads, it warns and takes one
  if (taken !== threads) throw new Error(`WebAssembly has ${taken} threads, not ${threads}`);
  isLoaded = true;
}

async function openInWasm({ artifact, threads }) {
  if (!isLoaded) await loadWasm(threads);
  if (ort.env.wasm.numThreads !== threads) throw new Error(`WebAssembly was started with ${ort.env.wasm.numThreads} threads`);
  return inWasm(new Uint8Array(fs.readFileSync(artifact)));
}

async function timed(session, arrays) {
  const start = process.hrtime.bigint();
  const made = await infer(session, arrays);
  return [Number(process.hrtime.bigint() - start), made];
}

const origin = process.hrtime.bigint();
const now = () => Number(process.hrtime.bigint() - origin);

async function answer(header, arrays) {
  const session = sessions.get(header.session);
  switch (header.operation) {
    case 'start':
      ort = require(name);
      if (name === 'onnxruntime-web' && planned) await loadWasm(Number(planned));
      return [{}, {}];
    case 'open': {
      const opened = await (name === 'onnxruntime-web' ? openInWasm(header) : openNatively(header));
      sessions.set(header.session, { opened, outputs: header.outputs, kept: new Map() });
      return [{}, {}];
    }
    case 'run': {
      const [ns, made] = await timed(session, arrays);
      return [{ ns }, made];
    }
    case 'keep':
      session.kept.set(header.request, arrays);
      return [{}, {}];
    case 'burst':
      return [await burst((arrays) => infer(session, arrays), session.kept.get(header.request), header, now), {}];
    case 'close':
      sessions.delete(header.session);
      await session.opened.release();
      return [{}, {}];
    default:
      throw new Error(`no operation ${header.operation}`);
  }
}

for (;;) {
  try {
    writeFrame(...await answer(...readFrame()));
  } catch (error) {
    writeFrame({ error: String(error?.message ?? error) }, {});
  }
}
