"""Growth: the time and memory of `bench profile` and `bench graph picture` for graphs of 1,000 to 100,000 nodes.

Graphs are a chain, one wide layer that a last node sums up, and square layers whose nodes each read two of the layer
before. Each command runs as a person would run it, with its child process, and beside it in the same round the same
command on a graph of one node: its start. From the medians over the rounds follow the exponents of growth, which must
be at most 1.15. Models are not run: that is ONNX Runtime's time.

Of the time, the start is taken off, and the exponent is that from each size to ten times as many nodes; but where what
is left of the smaller graph is less than a quarter of the start, it is lost in the noise, and the exponent is that of
the whole.

Of the peak memory, what the imports gave back is used again first, so a small graph adds nothing to the peak of the
start, and taking that off would leave the larger graphs with too little. The peak is max(start, c + a n^k), and the
exponent is the k that fits best, for the sizes from a tenth of the largest on.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import instrument
import numpy as np
import onnx
from onnx import TensorProto, helper
from scipy import optimize

BENCH = str(Path(sys.executable).with_name("bench"))
MAX_EXPONENT = 1.15
SIZES = (1_000, 10_000, 30_000, 100_000)
COMMANDS = {
    "profile": ("profile", "{file}", "--no-observe", "--by", "node", "--format", "csv"),
    "profile --by buffer": ("profile", "{file}", "--no-observe", "--by", "buffer", "--format", "csv"),
    "graph picture": ("graph", "picture", "{file}", "{file}.svg", "--no-observe"),
}
LEAST_SHARE = 0.25
MEBIBYTE = 1 << 20
LAUNCHER = """
import os, sys
null = os.open(os.devnull, os.O_WRONLY)
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)])
_, status, usage = os.wait4(process, 0)
print(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
"""
"""A small process that starts a command: the peak memory of a process begins with that of the process it comes from."""

Nodes = list[onnx.NodeProto]


def main() -> None:
    """Measure every command on every graph, and print the exponents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    arguments = parser.parse_args()
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        files = {(kind, size): Path(folder, f"{kind}_{size}.onnx") for kind in GRAPHS for size in (1, *arguments.sizes)}
        for (kind, size), file in files.items():
            onnx.save(model_of(GRAPHS[kind](size)), file)
        for kind, (name, command) in itertools.product(GRAPHS, COMMANDS.items()):
            rounds = [
                {size: cost(command, files[kind, size]) for size in (1, *arguments.sizes)}
                for _ in range(arguments.rounds)
            ]
            failures += judged(f"{name} of a {kind}", rounds)
    instrument.finish(failures)


def chain(num_nodes: int) -> Nodes:
    """Each node reads the one before."""
    names = ["x", *(f"t{at}" for at in range(1, num_nodes)), "y"]
    return [helper.make_node("Relu", [one], [other]) for one, other in itertools.pairwise(names)]


def layer(num_nodes: int) -> Nodes:
    """All nodes but the last read the input, and the last reads all others."""
    names = [f"t{at}" for at in range(num_nodes - 1)]
    return [
        *(helper.make_node("Relu", ["x"], [name]) for name in names),
        helper.make_node("Sum", names or ["x"], ["y"]),
    ]


def layers(num_nodes: int) -> Nodes:
    """As many layers as a layer has nodes; each node reads two of the layer before, drawn at random."""
    generator = random.Random(0)
    width = math.isqrt(num_nodes)
    nodes, before = [], ["x"]
    for start in range(0, num_nodes - 1, width):
        names = [f"t{at}" for at in range(start, min(start + width, num_nodes - 1))]
        nodes += [helper.make_node("Add", generator.choices(before, k=2), [name]) for name in names]
        before = names
    return [*nodes, helper.make_node("Sum", before, ["y"])]


GRAPHS: Mapping[str, Callable[[int], Nodes]] = {"chain": chain, "layer": layer, "grid of layers": layers}


def model_of(nodes: Nodes) -> onnx.ModelProto:
    """A model of nodes between `x` and `y`, both float32 (4)."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    return helper.make_model(
        helper.make_graph(nodes, "grown", [x], [y]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )


def cost(command: tuple[str, ...], file: Path) -> tuple[float, float]:
    """Processor time in seconds, and peak resident memory in bytes, of a command with all its processes."""
    words = [word.format(file=file) for word in command]
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LAUNCHER, BENCH, *words], check=True, capture_output=True, text=True
    )
    status, seconds, kibibytes = told.stdout.split()
    if int(status):
        raise SystemExit(f"bench {' '.join(words)} ended with status {status}: {told.stderr}")
    return float(seconds), int(kibibytes) * 1024


def steps(own: Mapping[int, float], start: float) -> list[float]:
    """The exponents of growth from each size to ten times as many nodes, of what is used besides the start."""
    found = []
    for few, many in ((few, 10 * few) for few in own if 10 * few in own):
        kept = 0.0 if own[few] >= LEAST_SHARE * start else start
        found.append(math.log((own[many] + kept) / (own[few] + kept)) / math.log(many / few))
    return found


def exponent_of(sizes: Sequence[int], whole: Sequence[float], start: float) -> float:
    """The exponent k of the peak max(start, c + a n^k) that fits best, by relative errors; c is at most the start."""
    sizes_N, whole_N = np.array(sizes, float), np.array(whole)

    def errors(x: np.ndarray) -> np.ndarray:
        constant, last, exponent = x
        fitted = constant * start + last * whole_N[-1] * (sizes_N / sizes_N[-1]) ** exponent
        return np.log(np.maximum(fitted, start) / whole_N)

    least, most = (0.0, 1e-3, 0.2), (1.0, 1.5, 3.0)
    fits = [optimize.least_squares(errors, (0.8, 0.8, first), bounds=(least, most)) for first in (0.7, 1.0, 1.5, 2.0)]
    return float(min(fits, key=lambda fit: fit.cost).x[2])


def judged(what: str, rounds: list[dict[int, tuple[float, float]]]) -> list[str]:
    """Print the medians and the exponents of one command on one kind of graph; returns the failures."""
    failures = []
    sizes = [size for size in rounds[0] if size > 1]
    for unit, place, scale in (("s", 0, 1.0), ("MiB", 1, MEBIBYTE)):
        own = {size: statistics.median(one[size][place] - one[1][place] for one in rounds) for size in sizes}
        start = statistics.median(one[1][place] for one in rounds)
        if unit == "MiB":
            large = [size for size in sizes if size >= max(sizes) / 10]
            exponents = [exponent_of(large, [own[size] + start for size in large], start)]
        else:
            exponents = steps(own, start)
        figures = ", ".join(f"{own[size] / scale:.2f} {unit}" for size in sizes)
        told = ", ".join(f"{one:.2f}" for one in exponents)
        print(f"{what}: {figures} besides {start / scale:.2f} {unit} of the start; exponents {told}", flush=True)
        if max(exponents, default=0.0) > MAX_EXPONENT:
            failures.append(f"{what}: {unit} grow with an exponent of {max(exponents):.2f}, more than {MAX_EXPONENT}")
    return failures


if __name__ == "__main__":
    main()
