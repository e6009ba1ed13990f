// LiteRT.js in the page: WebAssembly with XNNPACK.
let litert;

export async function load({ threads, packages }) {
  const folder = `${packages}@litertjs/core/`;
  // Its pool has a thread for each core: a model that asks for more cannot have them.
  if (threads > navigator.hardwareConcurrency) throw new Error(`this browser has ${navigator.hardwareConcurrency} cores, not ${threads}`);
  litert = await import(`${folder}dist/index.js`);
  await litert.loadLiteRt(`${folder}wasm/`, { threads: threads > 1 });
}

// A run that fails does not throw, and its outputs are whatever was in memory: it only says so on the console.
function refuseFailure(lines) {
  const failure = lines.find((line) => line.startsWith('ERROR'));
  if (failure !== undefined) throw new Error(failure);
}

export async function open(content, { threads, lines }) {
  const model = await litert.loadAndCompile(content, {
    accelerator: 'wasm', ...(threads > 1 && { cpuOptions: { numThreads: threads } }),
  });
  refuseFailure(lines);
  const isStatic = model.getInputDetails().every(({ shape }) => Array.from(shape).every((size) => size >= 0));
  return {
    facts: { is_static: isStatic },
    async infer(arrays) {
      lines.length = 0;
      const feeds = {};
      for (const [name, { shape, values }] of Object.entries(arrays)) {
        feeds[name] = new litert.Tensor(values, shape);
      }
      const tensors = await model.run(feeds);
      const made = {};
      for (const [name, tensor] of Object.entries(tensors)) {
        const { dtype, layout } = tensor.type;
        made[name] = { dtype, shape: Array.from(layout.dimensions), values: await tensor.data() };
        tensor.delete();
      }
      for (const tensor of Object.values(feeds)) tensor.delete();
      if (lines.length) refuseFailure(lines);
      return made;
    },
    release: () => model.delete(),
  };
}
