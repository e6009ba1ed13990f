"""How a fleet scales: sweeps whose blocks sleep for two seconds, on 1, 2, 4 and 8 simulated machines.

The nodes are real nodes of Ray with leases of their own, and the driver does what it does in `bench fleet run`: it
plans, sends, stores every launch, fits the model and asks what is open. A block holds its machine's lease, sleeps, and
brings launches of `simulation.py`. All cells get the same number of launches, so there is work for all machines from
the beginning to the end: a sweep that waits for one answer keeps no fleet busy. Printed are the wall time over the
ideal one, the overlaps of leases, and the driver's memory.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import instrument
import numpy as np
import psutil
from nodes import Fleet
from simulation import Scenario, World

from bench.features.fleet import cluster
from bench.features.fleet.place import FleetPlace, Machine, remote
from bench.measure import rounds
from bench.measure.block import Method, Result
from bench.measure.goal import Goal
from bench.measure.open_work import Progress
from bench.measure.questions import Aims
from bench.measure.subject import Subject
from bench.records.store import Store

LEASE_S = 2.0
MOST = 1.25
"""Wall time over the ideal one."""
MOST_GROWTH_BYTES = 32 * 2**20
"""Of the driver, from a quarter of the fits to the last one."""
NUM_REQUESTS = 10
OFFSETS = tuple(0.002 * number for number in range(12))


def hold(seconds: float) -> tuple[float, float]:
    """Hold the machine's lease for some seconds; returns when it began and ended. It runs on a node."""
    import time

    from bench.measure import lease

    with lease.hold(wait_s=60):
        begun_s = time.time()
        time.sleep(seconds)
        return begun_s, time.time()


class Sleeping:
    """Blocks that sleep on a machine of a fleet, and bring simulated launches."""

    def __init__(self, place: FleetPlace, world: World) -> None:
        self._blocks = place.blocks()
        self._world = world
        self.leases: list[tuple[str, float, float]] = []

    def most_at_once(self) -> int:
        """As of the fleet."""
        return self._blocks.most_at_once()

    def free_bytes(self) -> int:
        """As of the fleet."""
        return self._blocks.free_bytes()

    def begin(
        self, baseline: Subject, subjects: Sequence[Subject], method: Method, left_s: Callable[[], float]
    ) -> Future[Result]:
        """Sleep on a machine."""
        taken: list[Machine] = []

        def task(machine: Machine) -> Any:
            taken.append(machine)
            return remote(hold, machine).remote(LEASE_S)

        def read(done: tuple[float, float]) -> Result:
            self.leases.append((taken[-1].name, *done))
            return self._world.run_block(baseline, subjects, method)

        return self._blocks.send(task, read)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Swept:
    """A sweep: the seconds that it took, its leases, and the driver's memory after each fit."""

    wall_s: float
    leases: Sequence[tuple[str, float, float]]
    rss_bytes: Sequence[int]


def sweep(num_machines: int, num_leases: int) -> Swept:
    """A sweep on so many machines."""
    scenario = Scenario(name="", offsets=OFFSETS, num_requests=NUM_REQUESTS, num_places=num_machines)
    world = World(scenario, np.random.default_rng(num_machines))
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet.at_free_port(Path(folder))
        try:
            for name in ("head", *(f"m{number}" for number in range(1, num_machines))):
                fleet.start(name)
            os.environ.update(BENCH_LEASE=str(fleet.folder / "lease-driver"))
            cluster.connect(fleet.address, fleet.token)
            machines, refused = cluster.machines()
            assert len(machines) == num_machines, refused
            blocks = Sleeping(FleetPlace(machines, cluster.living, print), world)
            launches = math.ceil(num_leases / NUM_REQUESTS)
            goal = Goal(aims=Aims(margin=1e-6), min_launches=launches, max_launches=launches)
            store = Store(Path(folder) / "results", "machine")
            store.folder.mkdir(parents=True)

            def keep(result: Result) -> None:
                for subject, launch in result.launches:
                    store.append(subject.key.replace("/", "-"), launch)

            rss_bytes: list[int] = []

            def report(_: Progress) -> None:  # between two fits, whose matrices are freed again
                rss_bytes.append(psutil.Process().memory_info().rss)

            start_s = time.monotonic()
            rounds.measure(world.groups(), Method(), goal, keep=keep, report=report, blocks=blocks)
            assert len(blocks.leases) == launches * NUM_REQUESTS
            return Swept(wall_s=time.monotonic() - start_s, leases=blocks.leases, rss_bytes=rss_bytes)
        finally:
            import ray  # which takes its settings from the environment when it is imported

            ray.shutdown()  # which ends this process with an error once its node is gone
            fleet.end()


def overlaps(leases: Sequence[tuple[str, float, float]]) -> int:
    """Pairs of leases of one machine that overlap."""
    ordered = sorted(leases)
    return sum(one[0] == other[0] and one[2] > other[1] for one, other in itertools.pairwise(ordered))


def main() -> None:
    """Run the sweeps, print the figures, and exit with 1 where one is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, nargs="+", default=(1, 2, 4, 8))
    parser.add_argument("--leases", type=int, default=200)
    arguments = parser.parse_args()
    if len(arguments.machines) > 1:  # each in a process of its own, because Ray keeps the first token that it is given
        command = (sys.executable, __file__, "--leases", str(arguments.leases), "--machines")
        codes = [subprocess.run([*command, str(number)], check=False).returncode for number in arguments.machines]
        sys.exit(int(any(codes)))
    failures = []
    for num_machines in arguments.machines:
        swept = sweep(num_machines, arguments.leases)
        num_leases = len(swept.leases)
        ideal_s = math.ceil(num_leases / num_machines) * LEASE_S
        grown = swept.rss_bytes[-1] - swept.rss_bytes[len(swept.rss_bytes) // 4]
        twice = overlaps(swept.leases)
        print(
            f"{num_machines} machines: {num_leases} leases in {swept.wall_s:.1f} s, "
            f"{swept.wall_s / ideal_s:.3f} times the ideal {ideal_s:.0f} s; {twice} overlaps; "
            f"the driver grew by {grown / 2**20:.1f} MiB to {swept.rss_bytes[-1] / 2**20:.0f} MiB",
            flush=True,
        )
        if swept.wall_s > MOST * ideal_s:
            failures.append(f"{num_machines} machines: {swept.wall_s / ideal_s:.3f} times the ideal")
        if twice:
            failures.append(f"{num_machines} machines: {twice} overlaps")
        if grown > MOST_GROWTH_BYTES:
            failures.append(f"{num_machines} machines: the driver grew by {grown / 2**20:.0f} MiB")
    instrument.finish(failures)


if __name__ == "__main__":
    main()
