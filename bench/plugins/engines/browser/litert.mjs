// LiteRT.js in the page: WebAssembly with XNNPACK.
let litert;

export async function load({ threads, packages }) {
  const folder = `${packages}@litertjs/core/`;
  litert = await import(`${folder}dist/index.js`);
  await litert.loadLiteRt(`${folder}wasm/`, { threads: threads > 1 });
}

export async function open(content, { threads, inputs, outputs, lines }) {
  const model = await litert.loadAndCompile(content, {
    accelerator: 'wasm', ...(threads > 1 && { cpuOptions: { numThreads: threads } }),
  });
  return {
    facts: { details: JSON.stringify([model.getInputDetails(), model.getOutputDetails()]) },
    async infer(arrays) {
      const feeds = {};
      for (const [name, { shape, values }] of Object.entries(arrays)) {
        feeds[name] = new litert.Tensor(values, shape);
      }
      const tensors = await model.run(feeds);
      const made = {};
      for (const [name, tensor] of Object.entries(tensors)) {
        made[name] = { dtype: tensor.type.dtype, shape: tensor.type.layout.dimensions, values: await tensor.data() };
        tensor.delete();
      }
      for (const tensor of Object.values(feeds)) tensor.delete();
      return made;
    },
    release: () => model.delete(),
  };
}
