"""The constants from which docs/fleet.md draws the limits of a fleet: to plan, to store, to read and to fit.

Planning is that of `bench run --dry-run` over 10,000 cells and more, which must take no more than 2 s. The others are
those of the process that gives the command to a fleet: to store a launch on this disk, and, after blocks have ended, to
fit the model of the measurement to so many launches and ask what is open. `many_records.py` is about reading.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import instrument
import numpy as np
from simulation import Scenario, World

from bench.measure.goal import Goal
from bench.measure.open_work import open_work
from bench.records import folder
from bench.records.store import Store

RESULTS = Path(__file__).parents[1] / "results" / "reference"
NUM_CELLS = 10_000
MOST_S = 2.0
LAUNCHES = (500, 1_000, 2_000, 4_000)
NUM_STORED = 300
VARIANT = """
from bench.api import Variant


class Many(Variant):
    formats = ("onnx",)
    options = tuple(f"v{{number}}" for number in range({number}))

    def apply(self, source, target, *, option, task):
        raise NotImplementedError  # it is only planned
"""


def seconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    start_s = time.perf_counter()
    action()
    return time.perf_counter() - start_s


def planned(plugins: Path, runs: int) -> tuple[int, float]:
    """The number of cells that `bench run --sweep everything` plans with further variants, and the median time."""
    (plugins / "variants").mkdir(parents=True)
    command = (str(Path(sys.executable).with_name("bench")), "run", "--sweep", "everything", "--dry-run")
    variables = {**os.environ, "BENCH_PATH": str(plugins)}

    def run() -> int:
        done = subprocess.run(
            command, env=variables, check=True, capture_output=True, text=True, cwd=RESULTS.parents[1]
        )
        return sum(line.count("/") >= 6 for line in done.stdout.splitlines())

    for number in itertools.count(20, 20):
        (plugins / "variants" / "many.py").write_text(VARIANT.format(number=number))
        if (count := run()) >= NUM_CELLS:
            return count, statistics.median(seconds(run) for _ in range(runs))
    raise AssertionError


def stored(results: Path) -> tuple[float, float]:
    """The median time to store a launch, and the mean size of its line."""
    records = next(iter(folder.read_all(RESULTS).values())).records.values()
    launches = [launch for record in records for launch in record.launches][:NUM_STORED]
    header = next(iter(records)).header
    store = Store(results, "machine")
    store.folder.mkdir(parents=True)
    store.append("key", header)
    before = (store.folder / "key.jsonl").stat().st_size
    times = [seconds(lambda launch=launch: store.append("key", launch)) for launch in launches]  # type: ignore[misc]
    size = ((store.folder / "key.jsonl").stat().st_size - before) / len(launches)
    return statistics.median(times), size


def fitted(num_launches: int, runs: int) -> tuple[int, float]:
    """The number of launches of ten requests with twelve cells each on eight machines, and the median time to fit the
    model to them and to ask what is open.
    """
    offsets = tuple(0.002 * number for number in range(12))
    world = World(
        Scenario(name="", offsets=offsets, num_requests=10, num_places=8, place=0.01), np.random.default_rng(0)
    )
    groups = world.rounds(max(1, round(num_launches / (10 * (len(offsets) + 2)))))
    count = sum(len(ledger.launches) for group in groups for ledger in group.ledgers)
    open_work(groups, Goal())  # the levels of a block are kept from one fit to the next
    return count, statistics.median(seconds(lambda: open_work(groups, Goal())) for _ in range(runs))


def main() -> None:
    """Measure, and print a line for each constant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        count, planned_s = planned(Path(place) / "plugins", arguments.runs)
        print(f"plan {count:,} cells: {planned_s:.2f} s; at most {MOST_S:.0f} s", flush=True)
        store_s, size = stored(Path(place) / "results")
        print(f"store a launch: {1e3 * store_s:.2f} ms, {size:.0f} bytes", flush=True)
    for number in LAUNCHES:
        count, fitted_s = fitted(number, arguments.runs)
        print(f"fit {count:,} launches and ask what is open: {fitted_s:.2f} s", flush=True)
    instrument.finish([f"the cells take {planned_s:.2f} s"] if planned_s > MOST_S else [])


if __name__ == "__main__":
    main()
