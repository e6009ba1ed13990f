"""The regression guard: planted 5 % slowdowns are found, and clean runs pass, on a busy machine, too.

Both artifacts are ONNX files that ONNX Runtime runs: a chain of equal layers, and in the slower one 5 % more of them
beside the chain, which add nothing to its output. The 5 % are exact, counted in layers; the benchmark measures the time
that the layers take.

Of ten checks or fewer none may be wrong. Of more, one clean pair in twenty may be called slower, and one slowdown in
ten may be missed. Beside no other process, each check must end within two minutes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import instrument
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.decisions import check
from bench.measure.block import Method
from bench.measure.goal import REGRESSION
from bench.measure.limits import Limits
from bench.report.check import line

LAYERS, WIDTH = 100, 192
CHAINS = ("main", "more")  # of weights of their own, or ONNX Runtime would compute what they share once
TOLERANCE = 0.02
CLEAN, SLOWER = "clean", "5 % slower"
FEW = 10
"""So many checks must all be right."""
WRONG_OF = {CLEAN: 20, SLOWER: 10}
"""Of more, one in so many may be wrong."""
LONGEST_S = 120.0


def make(path: Path, *, more_layers: int) -> None:
    """A chain of layers. The extra layers run beside it, and their output is multiplied by zero at the end."""
    generator = np.random.default_rng(0)
    weights = {
        chain: (generator.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32) for chain in CHAINS
    }
    nodes = []
    for chain, layers in zip(CHAINS, (LAYERS, more_layers), strict=True):
        nodes.append(helper.make_node("Identity", ["x"], [f"{chain}0"]))
        for layer in range(layers):
            nodes.append(helper.make_node("MatMul", [f"{chain}{layer}", f"{chain}_w"], [f"{chain}{layer}m"]))
            nodes.append(helper.make_node("Relu", [f"{chain}{layer}m"], [f"{chain}{layer + 1}"]))
    nodes.append(helper.make_node("Mul", [f"more{more_layers}", "zero"], ["nothing"]))
    nodes.append(helper.make_node("Add", [f"main{LAYERS}", "nothing"], ["y"]))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH]) for name in ("x", "y")]
    tensors = [numpy_helper.from_array(weight, f"{chain}_w") for chain, weight in weights.items()]
    tensors.append(numpy_helper.from_array(np.zeros(1, np.float32), "zero"))
    graph = helper.make_graph(nodes, "graph", values[:1], values[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def main() -> None:
    """Run the checks and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clean", type=int, default=10, help="checks of a pair without more work")
    parser.add_argument("--slower", type=int, default=10, help="checks of a pair with 5 %% more work")
    parser.add_argument("--busy", type=int, default=2, help="processes that load the machine meanwhile")
    arguments = parser.parse_args()
    repeats = {CLEAN: arguments.clean, SLOWER: arguments.slower}
    called, longest_s = dict.fromkeys(repeats, 0), 0.0
    with tempfile.TemporaryDirectory() as folder, instrument.busy(arguments.busy):
        files = {name: Path(folder, f"{number}.onnx") for number, name in enumerate(("pinned", *repeats))}
        for name, path in files.items():
            make(path, more_layers=LAYERS * 5 // 100 if name == SLOWER else 0)
        limits = Limits.of(step_s=None, memory_bytes=None)
        pairs = {name: check.pair_of_files(files["pinned"], files[name], batch=16, limits=limits) for name in repeats}
        for repeat in range(max(repeats.values())):
            for name in (name for name, number in repeats.items() if repeat < number):
                begin = time.monotonic()
                outcome = check.measure(pairs[name], check.goal(tolerance=TOLERANCE), Method(limits=limits))
                taken_s = time.monotonic() - begin
                longest_s = max(longest_s, taken_s)
                if outcome.fault is not None:
                    raise SystemExit(f"the outputs of a sound pair are called wrong: {outcome.fault}")
                called[name] += outcome.verdict == REGRESSION
                print(f"{repeat + 1:3}  {name:11} {taken_s:4.0f} s  {line(outcome)}", flush=True)
    print(", ".join(f"{name}: {called[name]} of {number} called slower" for name, number in repeats.items()))
    print(f"the longest check took {longest_s:.0f} s")
    failures = []
    wrong = {CLEAN: called[CLEAN], SLOWER: repeats[SLOWER] - called[SLOWER]}
    for name, number in repeats.items():
        allowed = number // WRONG_OF[name] if number > FEW else 0
        if wrong[name] > allowed:
            failures.append(f"{name}: {wrong[name]} of {number} are wrong, and {allowed} may be")
    if not arguments.busy and longest_s > LONGEST_S:
        failures.append(f"a check took {longest_s:.0f} s")
    instrument.finish(failures)


if __name__ == "__main__":
    main()
