"""The time that `bench.onnxfile.profile` takes beside onnx-tool 1.0.1, on the same files.

Each profiler runs in a process of its own. The two take turns in short bursts, whose first profile does not count:
caches are cold then. The timed part is everything from the file's path to the totals. onnx-tool is no dependency:
install it somewhere else and give that folder,

    pip install --target FOLDER --no-deps onnx-tool==1.0.1 tabulate

Files are made on the spot: the light models of the onnx package with random weights in the place of the constants that
they generate, and transformers of their usual sizes with random weights. They take 2 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import transformer_graphs as transformers

MOST = 1 / 3
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
TRANSFORMERS = {
    "bert_base": (transformers.bert, transformers.BERT_BASE, 256),
    "gpt2": (transformers.gpt2, transformers.GPT2, 128),
    "llama_layer": (transformers.llama, transformers.LLAMA_LAYER, 512),
}
BURST_S = 0.1
LOOP = """
import json, statistics, sys, time
{setup}
print("ready", flush=True)
for line in sys.stdin:
    path, shapes, burst_s = json.loads(line)
    try:
        macs, params = profile(path, shapes)
    except Exception as error:
        print(json.dumps({{"error": f"{{type(error).__name__}}: {{error}}"}}), flush=True)
        continue
    times, end = [], time.perf_counter() + burst_s
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        profile(path, shapes)
        times.append(time.perf_counter() - start)
    print(json.dumps([statistics.median(times), macs, params]), flush=True)
"""
OURS = """
import bench.onnxfile

def profile(path, shapes):
    found = bench.onnxfile.profile(path, shapes=shapes, observe=False)
    return found.macs, found.num_params
"""
THEIRS = """
import contextlib, io, numpy, onnx_tool

def profile(path, shapes):
    with contextlib.redirect_stdout(io.StringIO()):
        model = onnx_tool.loadmodel(path, {"verbose": False})
        model.graph.graph_reorder_nodes()
        model.graph.shape_infer({name: numpy.zeros(shape, numpy.int64) for name, shape in shapes.items()} or None)
        model.graph.profile()
    return model.graph.macs[0], model.graph.params
"""


class ProfilerError(Exception):
    """One of the two profilers cannot profile a model."""


def main() -> None:
    """Print the times of both on every file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where onnx-tool was installed with --target")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", help="names of models, joined by commas")
    arguments = parser.parse_args()
    slow, failed = [], []
    with tempfile.TemporaryDirectory() as folder:
        only = arguments.only.split(",") if arguments.only else None
        ours, theirs = _start(OURS, {}), _start(THEIRS, {"PYTHONPATH": str(arguments.folder)})
        try:
            print(f"{'model':22} {'ours (ms)':>10} {'theirs (ms)':>12} {'ratio':>7}   MACs: ours, theirs (M)")
            for name, path, shapes in _models(Path(folder), only):
                try:
                    turns = [(_ask(ours, path, shapes), _ask(theirs, path, shapes)) for _ in range(arguments.turns)]
                except ProfilerError as error:
                    print(f"{name:22} not comparable: {error}", flush=True)
                    failed.append(name)
                    continue
                ratio = math.exp(statistics.median(math.log(one[0] / two[0]) for one, two in turns))
                medians = [statistics.median(turn[side][0] for turn in turns) * 1e3 for side in range(2)]
                macs = ", ".join(f"{turns[0][side][1] / 1e6:.1f}" for side in range(2))
                print(f"{name:22} {medians[0]:10.1f} {medians[1]:12.1f} {ratio:7.3f}   {macs}", flush=True)
                if ratio >= MOST:
                    slow.append(name)
        finally:
            for process in (ours, theirs):
                process.kill()
                process.wait()
    if failed:
        print(f"not comparable: {', '.join(failed)}")
    sys.exit(f"not under a third: {', '.join(slow)}" if slow else 0)


def _models(folder: Path, only: list[str] | None) -> Iterator[tuple[str, Path, dict[str, list[int]]]]:
    """Name, file and shapes of dynamic inputs of each model in turn; a file is deleted before the next is made."""
    for source in sorted(LIGHT.glob("*.onnx")):
        name = source.stem.removeprefix("light_")
        if only is None or name in only:
            onnx.save(_with_weights(onnx.load(source)), folder / f"{name}.onnx")
            yield name, folder / f"{name}.onnx", {}
            (folder / f"{name}.onnx").unlink()
    for name, (build, config, length) in TRANSFORMERS.items():
        if only is None or name in only:
            build(config, folder / f"{name}.onnx", random=True)
            inputs = onnx.load(folder / f"{name}.onnx", load_external_data=False).graph.input
            yield name, folder / f"{name}.onnx", {given.name: [1, length] for given in inputs}
            (folder / f"{name}.data").unlink()


def _with_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with random weights in place of those that `ConstantOfShape` nodes make."""
    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    generator = np.random.default_rng(0)
    made = [node for node in graph.node if node.op_type == "ConstantOfShape"]
    kept = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    for node in made:
        shape = onnx.numpy_helper.to_array(stored[node.input[0]])
        array = generator.standard_normal(shape, np.float32) * np.float32(0.02)
        graph.initializer.append(onnx.numpy_helper.from_array(array, node.output[0]))
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
    del graph.node[:]
    graph.node.extend(copies)
    return model


def _start(setup: str, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", LOOP.format(setup=setup)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        sys.exit("a profiler did not start; is onnx-tool in that folder?")
    return process


def _ask(process: subprocess.Popen[str], path: Path, shapes: Mapping[str, list[int]]) -> tuple[float, float, float]:
    """Median seconds of a burst, MACs and parameters.

    Raises:
        ProfilerError: it cannot profile that file.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([str(path), shapes, BURST_S]) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        sys.exit(f"a profiler ended at {path.name}")
    found = json.loads(answer)
    if "error" in found:
        raise ProfilerError(found["error"])
    seconds, macs, params = found
    return seconds, macs, params


if __name__ == "__main__":
    main()
