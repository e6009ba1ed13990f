"""Two rows of optimum-benchmark, PyTorch and ONNX Runtime, of one exported model, for `benchmarks/beside_optimum.py`.

It runs in the environment that `beside_optimum.py` makes for optimum-benchmark. Each row is measured as its inference
scenario does by default: a process of its own, 10 inferences to warm up, and then at least 10 s.

Usage: optimum_rows.py MODEL_FOLDER THREADS BATCH TOKENS; the median latencies are printed as JSON, in seconds.
"""

import json
import sys

# optimum 1.27 imports private names of this module, which torch 2.13 keeps in another one. Only optimum's own exporter
# uses them, which has nothing to do here. The spawned processes of optimum-benchmark execute the top of this file, too.
from torch.onnx._internal.torchscript_exporter import symbolic_opset14

sys.modules["torch.onnx.symbolic_opset14"] = symbolic_opset14

from optimum_benchmark import (  # noqa: E402
    Benchmark,
    BenchmarkConfig,
    InferenceConfig,
    ORTConfig,
    ProcessConfig,
    PyTorchConfig,
)


def main() -> None:
    """Measure both backends in turn and print their median latencies."""
    folder = sys.argv[1]
    threads, batch, tokens = map(int, sys.argv[2:])
    same = {"model": folder, "library": "transformers", "task": "text-classification", "device": "cpu"}
    backends = {
        # As in models/albert/torch_model.py, so that both harnesses run the same program.
        "pytorch": PyTorchConfig(**same, intra_op_num_threads=threads, attn_implementation="eager"),
        "onnxruntime": ORTConfig(**same, export=False, session_options={"intra_op_num_threads": threads}),
    }
    rows = {}
    for name, backend in backends.items():
        scenario = InferenceConfig(input_shapes={"batch_size": batch, "sequence_length": tokens})
        config = BenchmarkConfig(name=name, launcher=ProcessConfig(), scenario=scenario, backend=backend)
        rows[name] = Benchmark.launch(config).forward.latency.p50
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
