"""The highest rates that the runtimes hold with the reference models, as services that use all cores of the machine.

For each task, the plain cell of each runtime at one thread is timed alone, and then served by as many workers as there
are cores. The latency is bounded by four times the median of the fastest runtime, with which the others are compared.
OpenVINO does not pin its threads: by default each of its processes pins them to the same cores as the next.

    python benchmarks/highest_rates.py results/load --tasks crnn albert
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import subprocess
import sys
from pathlib import Path

from bench.measure import machine

TASKS = ("crnn", "albert", "super_resolution", "albert_base")
CELLS = (
    "torch/native/raw/pytorch/cpu",
    "tf/native/raw/tensorflow/cpu",
    "torch/torch_onnx/raw/onnxruntime/cpu",
    "torch/torch_openvino/raw/openvino/cpu+no_pinning",
    "tf/tflite/raw/litert/cpu",
)
TIMES = 4
"""Bound on the latency over the fastest runtime's median."""


def bench(*arguments: str) -> str:
    """Run `bench`; returns what it printed."""
    command = [str(Path(sys.executable).with_name("bench")), *arguments]
    print("$ bench", *arguments, file=sys.stderr, flush=True)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def medians_ms(results: Path, cells: list[str], budget: str) -> dict[str, float]:
    """The median latency of each cell that works, in milliseconds."""
    bench("run", *cells, "--budget", budget, "--launches", "2", "--results", str(results))
    shown = bench("show", *cells, "--format", "csv", "--results", str(results))
    rows = [row for row in csv.DictReader(io.StringIO(shown)) if row["cell"] in cells and row["latency_p50_ns"]]
    return {row["cell"]: float(row["latency_p50_ns"]) / 1e6 for row in rows}


def two_digits(value: float) -> float:
    """A value rounded to two significant digits."""
    return round(value, 1 - math.floor(math.log10(value)))


def main() -> int:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--timing", default="60s", help="budget for timing the cells of a task alone")
    parser.add_argument("--budget", default="6m", help="budget for comparing the services of a task")
    given = parser.parse_args()
    for task in given.tasks:
        cells = [f"{task}/{cell}/b1t1" for cell in CELLS]
        found = medians_ms(given.results, cells, given.timing)
        fastest = min(found, key=found.__getitem__)
        bound = f"{two_digits(TIMES * found[fastest]):g}ms"
        asked = ["--instances", str(machine.num_cores()), "--latency", bound, "--baseline", fastest]
        more = ["--launches", str(given.launches), "--budget", given.budget, "--results", str(given.results)]
        print(f"## {task}\n\n`bench load {' '.join([*cells, *asked])}`\n", flush=True)
        print(bench("load", *cells, *asked, *more, "--format", "md"), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
