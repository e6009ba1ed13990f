"""One pair beside busy processes: how far its ratio spreads over separate runs of two minutes.

The pair is super_resolution, ONNX Runtime over PyTorch, with 1 and with 2 threads in the same runs. The standard
deviation of the logarithm of the ratio over the runs must be at most 1.0 % with 1 thread, and 2.5 % with 2.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import instrument
import sweeps

CELL = "super_resolution/torch/torch_onnx/raw/onnxruntime/cpu/b1t{}"
MAX_LOG_SD = {1: 0.010, 2: 0.025}
"""By the number of threads."""


def main() -> None:
    """Run the sweeps and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="folder of the results; the same folder again goes on")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--budget", default="2m", help="time for measuring in each run")
    parser.add_argument("--busy", type=int, default=2, help="processes that load the machine meanwhile")
    arguments = parser.parse_args()
    sweeps.keep(arguments.results, budget=arguments.budget, busy=arguments.busy)
    cells = {threads: CELL.format(threads) for threads in MAX_LOG_SD}
    runs = []
    with instrument.busy(arguments.busy):
        sweeps.fill_cache(list(cells.values()), arguments.results / "first")
        for repeat in range(arguments.repeats):
            place = arguments.results / f"run{repeat + 1:02}"
            runs.append(sweeps.run(list(cells.values()), place, budget=arguments.budget))
            ratios = [f"t{threads} {sweeps.text_of(runs[-1].row(cell))}" for threads, cell in cells.items()]
            print(f"{repeat + 1:3}  {'  '.join(ratios)}  ({runs[-1].wall_s:.0f} s)", flush=True)
    failures = []
    for threads, cell in cells.items():
        spread = sweeps.spread_of([run.row(cell) for run in runs])
        print(f"{threads} threads: {spread}; at most {MAX_LOG_SD[threads]:.1%} allowed")
        if not spread.log_sd <= MAX_LOG_SD[threads]:  # NaN of one run is not enough
            failures.append(f"the ratio spreads too far with {threads} threads")
    instrument.finish(failures)


if __name__ == "__main__":
    main()
