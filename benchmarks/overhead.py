"""Overhead: the harness's p50 against a bare loop over the same session in the same process, and parked workers' CPU.

Both ways of timing take turns on one ONNX Runtime session, so that the machine's drift hits both. The reported p50 must
be within 1 % of the bare loop's, and a parked worker must use under 1 % of a core.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time

import instrument
import numpy as np

from bench.api.cell import Cell
from bench.measure import clock
from bench.measure.clock import BurstPlan
from bench.measure.limits import Limits
from bench.measure.session import Worker
from bench.pipeline import opening, operations, prepare
from bench.plugins import catalog

MODEL = "super_resolution/torch/torch_onnx/raw/onnxruntime/cpu/b1t1"
SMALL = "toy/null/native/raw/null/cpu/b1t1"
PARKED = (MODEL, MODEL.replace("t1", "t2"), "super_resolution/torch/native/raw/pytorch/cpu/b1t2",
          "super_resolution/tf/native/raw/tensorflow/cpu/b1t2")  # fmt: skip
MAX_DIFFERENCE = 0.01
MAX_PARKED_SHARE = 0.01
LIMITS = Limits()


def main() -> None:
    """Print both figures for each cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10, help="how long parked workers are watched")
    arguments = parser.parse_args()
    failures = []
    for path in (MODEL, SMALL):
        bare_ns, reported_ns = take_turns(Cell.from_path(path), arguments.turns)
        ratio = reported_ns / bare_ns
        print(
            f"{path}: bare loop p50 {bare_ns / 1e6:.4f} ms, reported p50 {reported_ns / 1e6:.4f} ms, ratio {ratio:.4f}"
        )
        if abs(ratio - 1) > MAX_DIFFERENCE:
            failures.append(f"{path}: the reported p50 is off by {ratio - 1:+.1%}")
    for path in PARKED:
        share = parked_share(Cell.from_path(path), arguments.seconds)
        print(f"{path}: parked, {share:.3%} of a core")
        if share > MAX_PARKED_SHARE:
            failures.append(f"{path}: a parked worker uses {share:.1%} of a core")
    instrument.finish(failures)


def take_turns(cell: Cell, num_turns: int) -> tuple[float, float]:
    """Median latency by a bare loop and as the harness reports it, both over the same session, in nanoseconds."""
    artifact = prepare.artifact_of(cell, LIMITS).path
    with np.load(prepare.inputs_of(catalog.task(cell.task), LIMITS)) as file:
        feeds = {name: file[name][: cell.batch] for name in file}
    runtime = catalog.runtime(cell.runtime)
    runtime.import_packages()
    task = catalog.task(cell.task)
    provider = str(cell.provider)
    session = runtime.open(artifact, task=task, source=cell.source, provider=provider, threads=cell.threads)
    plan = BurstPlan()
    bare, reported = [], []
    for turn in range(num_turns):
        for is_bare in (True, False) if turn % 2 else (False, True):
            if is_bare:
                bare += bare_loop(session.run, feeds, plan)
            else:
                reported.append(clock.burst(session.run, feeds, plan)[1])
    return statistics.median(bare), statistics.median(map(statistics.median, reported))


def bare_loop(run, feeds, plan: BurstPlan) -> list[int]:  # type: ignore[no-untyped-def]
    """Latencies of a plain timing loop: as long as a burst, and like a burst without the first inference."""
    samples: list[int] = []
    end = time.perf_counter_ns() + plan.warm_ns
    while True:
        run(feeds)
        if time.perf_counter_ns() >= end:
            break
    end = time.perf_counter_ns() + plan.target_ns
    while not samples or time.perf_counter_ns() < end:
        start = time.perf_counter_ns()
        run(feeds)
        samples.append(time.perf_counter_ns() - start)
    return samples


def parked_share(cell: Cell, seconds: float) -> float:
    """Share of a core that a worker uses between bursts, from the kernel's count of its CPU time."""
    import psutil

    artifact = prepare.artifact_of(cell, LIMITS)
    request = opening.arguments(cell, artifact.path)
    with opening.worker(cell, memory_bytes=LIMITS.memory_bytes) as child:
        inputs = str(prepare.inputs_of(catalog.task(cell.task), LIMITS))
        child.request(operations.open_session, timeout_s=LIMITS.open_s, **request, inputs=inputs)
        child.request(Worker.burst, timeout_s=LIMITS.burst_s, **dataclasses.asdict(BurstPlan()))
        process = psutil.Process(child.pid)
        before = process.cpu_times()
        time.sleep(seconds)
        after = process.cpu_times()
    return (after.user + after.system - before.user - before.system) / seconds


if __name__ == "__main__":
    main()
