"""Repeatability on a busy machine: the same pair of cells compared again and again, in sweeps of their own.

The pairs are the super-resolution model on ONNX Runtime with graph optimizations on (the baseline) against off, and a
null pair that differs by 3 %. Beside each sweep the same two cells are timed the way other
harnesses do it, one after the other at normal priority (median of 60 runs after 10 to warm up), in the same minutes.

The spread (standard deviation over mean) of each pair's ratio must be at most 1.5 %, and no comparison may name the
wrong winner.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import instrument

from bench.api.cell import Cell
from bench.measure.goal import Goal
from bench.measure.limits import Limits
from bench.measure.process import Child
from bench.measure.session import Worker
from bench.pipeline import opening, operations, prepare
from bench.plugins import catalog
from bench.records.rows import Row
from bench.tasks import adopt

MODEL = "super_resolution/torch/torch_onnx/raw/onnxruntime/cpu/b1t1"
UNOPTIMIZED = "onnxruntime_unoptimized"
NULL = "toy/null/native/planted-{}/null/cpu/b1t1"
MAX_SPREAD = 0.015
LIMITS = Limits()


def main() -> None:
    """Compare each pair as often as asked and print a line for each pair."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--busy", type=int, default=2, help="processes that load the machine meanwhile")
    arguments = parser.parse_args()
    failures = []
    with Child() as child:
        first = child.request(Worker.protection, timeout_s=LIMITS.open_s)["high_priority"]
    print("workers run before other processes" if first else "workers have no priority here: expect wide intervals")
    for name, baseline, other in pairs():
        print(f"{name}: {other} over {baseline}")
        together, in_turn = [], []
        with instrument.busy(arguments.busy):
            for repeat in range(arguments.repeats):
                start = time.monotonic()
                row = instrument.compare([other], Goal())[other]
                together.append(row)
                in_turn.append(sequential(baseline, other))
                print(
                    f"{repeat + 1:3}  interleaved {row.ratio:.4f} [{row.ratio_low:.4f}, {row.ratio_high:.4f}] "
                    f"{row.verdict:9}  sequential {in_turn[-1]:.4f}  ({time.monotonic() - start:.0f} s)",
                    flush=True,
                )
        failures += summarize(name, together, in_turn)
    instrument.finish(failures)


def pairs() -> list[tuple[str, str, str]]:
    """Name, baseline and other cell of each pair; the baselines are their tasks' own."""
    model = prepare.artifact_of(Cell.from_path(MODEL), LIMITS).path
    task = adopt.adopt(model).name
    on, off = (f"{task}/onnx/native/raw/{runtime}/cpu/b1t1" for runtime in ("onnxruntime", "onnxruntime_unoptimized"))
    return [
        ("optimizations off", on, off),
        ("null, 3 % more work", NULL.format("none"), NULL.format("3percent")),
    ]


def sequential(baseline: str, other: str) -> float:
    """The ratio of two cells timed one after the other, each in a process of its own."""
    first, second = (_median_ns(Cell.from_path(path)) for path in (baseline, other))
    return second / first


def _median_ns(cell: Cell) -> float:
    with opening.worker(cell) as child:
        child.request(Worker.protection, timeout_s=LIMITS.open_s)  # once it answers, it has raised its own priority
        os.setpriority(os.PRIO_PROCESS, child.pid, 0)
        child.request(
            operations.open_session,
            timeout_s=LIMITS.open_s,
            **opening.arguments(cell, prepare.artifact_of(cell, LIMITS).path),
            inputs=str(prepare.inputs_of(catalog.task(cell.task), LIMITS)),
        )
        long = {"target_ns": 10**12, "timeout_s": 600}
        child.request(Worker.burst, warm_ns=0, min_runs=10, max_runs=10, **long)
        return statistics.median(child.request(Worker.burst, warm_ns=0, min_runs=60, max_runs=60, **long)["steady_ns"])


def summarize(name: str, together: list[Row], in_turn: list[float]) -> list[str]:
    """Print the spreads of both ways to compare, and return what does not hold."""
    ratios = [row.ratio for row in together if row.ratio is not None]
    wrong = sum(row.verdict == "faster" for row in together)  # each pair's other cell is the slower one, by its making
    undecided = sum(row.verdict not in ("faster", "slower") for row in together)
    wrong_in_turn = sum(ratio < 1 for ratio in in_turn)
    print(f"     interleaved {_spread(ratios)}, wrong winner in {wrong}, none in {undecided} of {len(ratios)}")
    print(f"     sequential  {_spread(in_turn)}, wrong winner in {wrong_in_turn} of {len(in_turn)}")
    failures = []
    if statistics.stdev(ratios) / statistics.mean(ratios) > MAX_SPREAD:
        failures.append(f"{name}: the ratios spread too far")
    if wrong:
        failures.append(f"{name}: a wrong winner")
    return failures


def _spread(ratios: list[float]) -> str:
    spread = statistics.stdev(ratios) / statistics.mean(ratios)
    return f"ratio {min(ratios):.4f} to {max(ratios):.4f}, spread (sd/mean) {spread:.2%}"


if __name__ == "__main__":
    main()
