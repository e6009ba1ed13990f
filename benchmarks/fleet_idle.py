"""What an idle node of a fleet does to a ratio that is measured beside it: it must change by less than 1 %.

A pair of runtimes is measured in launches of many passes, and a node of Ray that has joined a fleet and has nothing to
do is stopped (SIGSTOP) and goes on (SIGCONT) in turns of some passes each: two turns follow one another in random
order, of which one is beside the node. So what differs between launches, or changes within minutes, cancels. Printed
are the ratio in both, and the ratio of these ratios over all such two turns: the mean without the fifth at either end,
in which the machine had something else to do, with its 95 % interval.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

import instrument
import numpy as np
import psutil
from nodes import Fleet
from scipy import stats

from bench.api.cell import Cell
from bench.measure import machine
from bench.measure.block import Method, Result, run_block
from bench.measure.blocks import BlocksHere
from bench.measure.comparison import CELL, REFERENCE
from bench.measure.goal import Goal
from bench.measure.limits import Limits
from bench.measure.questions import Aims
from bench.measure.subject import Subject
from bench.pipeline.place import Here
from bench.pipeline.sweep import Sweep
from bench.pipeline.sweep_options import Options
from bench.records.store import Store

PAIR = "super_resolution/torch/torch_onnx/raw/onnxruntime/cpu/b1t1"
MOST = 0.01
TRIMMED = 0.2
"""Share of the two turns that is left out at either end."""
PASSES = 8
"""Of a turn."""
SETTLES_S = 0.5
"""After a turn's beginning: a node that goes on does first what it has missed."""


class Turns(BlocksHere):
    """Blocks in whose passes the processes of a node are stopped and go on in turns."""

    def __init__(self, fleet: Fleet, num_turns: int) -> None:
        super().__init__()
        self._fleet = fleet
        self._node: list[psutil.Process] = []
        self._num_turns = num_turns
        self.logs: list[list[dict[bool, float]]] = []

    def begin(
        self, baseline: Subject, subjects: Sequence[Subject], method: Method, left_s: Callable[[], float]
    ) -> Future[Result]:
        """Measure a block, and keep the logarithm of the ratio with and without the node, of each two turns."""
        self._node = self._fleet.processes()
        is_beside = [turn for _ in range(self._num_turns // 2) for turn in random.sample((True, False), 2)]
        # It is asked before each worker opens, by several threads, and before each pass but the first ones.
        numbers = itertools.chain(range(-len(subjects) - 1, 1), itertools.count(PASSES))
        method = dataclasses.replace(
            method,
            min_passes=PASSES,
            max_passes=PASSES * len(is_beside),
            max_s=math.inf,
            launch_sd=1e-9,
            max_lost_share=1,
        )

        def next_pass() -> bool:
            number = next(numbers)
            if number >= 0 and number % PASSES == 0:
                self._let(runs=is_beside[number // PASSES])
            return False

        result = run_block(baseline, subjects, method, out_of_time=next_pass)
        self._let(runs=True)
        assert {process.pid for process in self._node} == {process.pid for process in self._fleet.processes()}
        assert all(process.status() != psutil.STATUS_ZOMBIE for process in self._node)
        medians = {launch.role: launch.medians_ns for _, launch in result.launches}
        logs = [math.log(cell / reference) for reference, cell in zip(medians[REFERENCE], medians[CELL], strict=True)]
        turns = [statistics.median(logs[start : start + PASSES]) for start in range(0, len(logs), PASSES)]
        every = zip(is_beside, turns, strict=True)
        self.logs.append([dict(two) for two in zip(every, every, strict=True)])
        found: Future[Result] = Future()
        found.set_result(result)
        return found

    def _let(self, *, runs: bool) -> None:
        for process in self._node:
            process.send_signal(signal.SIGCONT if runs else signal.SIGSTOP)
        time.sleep(SETTLES_S)


class Beside(Here):
    """This machine with a node that is stopped and goes on."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns

    def blocks(self) -> Turns:
        """Blocks in turns."""
        return self._turns


def main() -> None:
    """Measure, and print a line for each launch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=8)
    parser.add_argument("--turns", type=int, default=16, help="of each launch, half of them beside the node")
    parser.add_argument("--cell", default=PAIR, help="the cell, which is compared with the baseline of its task")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet.at_free_port(Path(folder))
        try:
            fleet.start("head")
            turns = Turns(fleet, arguments.turns)
            goal = Goal(aims=Aims(margin=1e-6), min_launches=arguments.launches, max_launches=arguments.launches)
            options = Options(goal=goal, method=Method(limits=Limits.of(step_s=None, memory_bytes=None)))
            store = Store(Path(folder) / "results", machine.name())
            Sweep(store, options, instrument.Silence(), Beside(turns)).run([Cell.from_path(arguments.cell)])
        finally:
            fleet.end()
    for number, found in enumerate(turns.logs, 1):
        ratios = (math.exp(statistics.mean(two[beside] for two in found)) for beside in (True, False))
        print("{:3}  beside {:.4f}  without {:.4f}".format(number, *ratios))
    logs = [two[True] - two[False] for found in turns.logs for two in found]
    mean = stats.trim_mean(logs, TRIMMED)
    low, high = stats.mstats.trimmed_mean_ci(np.array(logs), limits=(TRIMMED, TRIMMED), alpha=0.05)
    ends = [math.exp(log) for log in (mean, low, high)]
    print("beside over without: {:.4f} [{:.4f}, {:.4f}] over {} times two turns".format(*ends, len(logs)))
    far = max(low, high, key=abs)
    instrument.finish([f"the ratio may change by {math.expm1(far):.2%}"] if abs(far) > MOST else [])


if __name__ == "__main__":
    main()
