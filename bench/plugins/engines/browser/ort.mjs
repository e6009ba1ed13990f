// onnxruntime-web in the page: WebAssembly with SIMD, or WebGPU.

import { SMALLEST } from './shared/shared.mjs';

const BUNDLES = { wasm: 'ort.wasm.min.mjs', webgpu: 'ort.webgpu.min.mjs' };
let ort;
let chosen; // the provider of all sessions

export async function load({ threads, provider, packages }) {
  const folder = `${packages}onnxruntime-web/dist/`;
  chosen = provider;
  if (provider === 'webgpu' && !await navigator.gpu?.requestAdapter()) {
    throw new Error('this browser has no adapter for WebGPU here');
  }
  ort = await import(`${folder}${BUNDLES[provider]}`);
  ort.env.wasm.numThreads = threads;
  ort.env.wasm.wasmPaths = folder;
  ort.env.logLevel = 'error';
  // It loads the WebAssembly, which then is no part of opening the model.
  const model = await ort.InferenceSession.create(SMALLEST, { executionProviders: [provider] });
  await model.release();
  // Where it cannot have its threads, it warns and takes one.
  if (ort.env.wasm.numThreads !== threads) throw new Error(`WebAssembly has ${ort.env.wasm.numThreads} threads, not ${threads}`);
  return provider === 'webgpu' ? adapter(await ort.env.webgpu.device) : {};
}

// What the browser says of the adapter of the device that the engine chose.
function adapter({ adapterInfo, features }) {
  const { vendor, architecture, device, description, isFallbackAdapter } = adapterInfo;
  const name = [vendor, architecture, device, description].filter(Boolean).join(' ') || 'unnamed';
  const imitated = isFallbackAdapter || /swiftshader|llvmpipe|software/i.test(name);
  return { adapter: name, float16: features.has('shader-f16') ? 'yes' : 'no', ...(imitated && { imitated: 'yes' }) };
}

export async function open(content, { outputs, profiled = false }) {
  const model = await ort.InferenceSession.create(content, {
    executionProviders: [chosen], graphOptimizationLevel: 'all', enableProfiling: profiled,
  });
  return {
    facts: {},
    async infer(arrays) {
      const feeds = {};
      for (const [name, { dtype, shape, values }] of Object.entries(arrays)) {
        feeds[name] = new ort.Tensor(dtype, values, shape);
      }
      const tensors = await model.run(feeds, outputs);
      const made = {};
      for (const [name, tensor] of Object.entries(tensors)) {
        made[name] = { dtype: tensor.type, shape: tensor.dims, values: tensor.data };
      }
      return made;
    },
    release: () => model.release(),
    endProfiling: () => model.endProfiling(),
  };
}

// The trace of so many inferences, as JSON: onnxruntime-web has no file to write it to, and writes it to the console.
export async function profile(content, arrays, { num_runs: number, outputs, lines }) {
  const model = await open(content, { outputs, profiled: true });
  for (let run = 0; run < number; run++) await model.infer(arrays);
  lines.length = 0;
  model.endProfiling();
  const trace = lines.join('\n');
  await model.release();
  return trace;
}
