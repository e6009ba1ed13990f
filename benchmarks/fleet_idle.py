"""What an idle node of a fleet does to a ratio that is measured beside it: it must change by less than 1 %.

A pair of runtimes is measured in turns with and without a node of Ray that has joined a fleet and has nothing to do.
The node is stopped (SIGSTOP) for the runs without it, so that its memory stays where it is, and goes on for those with
it. Printed is the ratio of the ratios over all turns, with its 95 % interval.
"""

from __future__ import annotations

import argparse
import math
import random
import signal
import statistics
import time
from pathlib import Path

import instrument
import sweeps
from nodes import Fleet
from scipy import special

CELL = "super_resolution/torch/torch_onnx/raw/onnxruntime/cpu/b1t1"
MOST = 0.01
SETTLES_S = 5.0


def main() -> None:
    """Run the sweeps and print a line for each turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="folder of the results; the same folder again goes on")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--budget", default="40s", help="time for measuring in each run")
    parser.add_argument("--cell", default=CELL, help="the cell, which is compared with the baseline of its task")
    arguments = parser.parse_args()
    sweeps.keep(arguments.results, budget=arguments.budget, cell=arguments.cell)
    sweeps.fill_cache([arguments.cell], arguments.results / "first")
    fleet = Fleet.at_free_port(arguments.results.resolve())
    logs = []
    try:
        fleet.start("head")
        for turn in range(arguments.turns):
            found = {}
            for beside in random.Random(turn).sample((True, False), 2):
                fleet.send(signal.SIGCONT if beside else signal.SIGSTOP)
                time.sleep(SETTLES_S)
                place = arguments.results / f"turn{turn + 1:02}-{'beside' if beside else 'without'}"
                found[beside] = sweeps.run([arguments.cell], place, budget=arguments.budget).row(arguments.cell)
            logs.append(math.log((found[True].ratio or math.nan) / (found[False].ratio or math.nan)))
            texts = [f"{name} {sweeps.text_of(found[key])}" for key, name in ((True, "beside"), (False, "without"))]
            print(f"{turn + 1:3}  {'  '.join(texts)}", flush=True)
    finally:
        fleet.end()
    mean, error = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    half = -special.stdtrit(len(logs) - 1, 0.025) * error
    print(f"beside over without: {math.exp(mean):.4f} [{math.exp(mean - half):.4f}, {math.exp(mean + half):.4f}]")
    instrument.finish([f"the ratio changes by {math.expm1(mean):.2%}"] if abs(mean) > MOST else [])


if __name__ == "__main__":
    main()
