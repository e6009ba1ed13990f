"""Start-up: `bench list` from a cold process, and a second sweep with nothing changed.

`bench list` must take at most 0.6 s; the second sweep, with table and figures, at most 15 s and no launch.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import instrument

from bench.measure import machine
from bench.records.store import Store

BENCH = str(Path(sys.executable).with_name("bench"))
MAX_LIST_S = 0.6
MAX_AGAIN_S = 15.0


def main() -> None:
    """Time both; the sweep must have been run before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    failures = []
    times = [seconds("list") for _ in range(arguments.repeats)]
    print(f"bench list: {min(times):.2f} to {max(times):.2f} s, median {statistics.median(times):.2f} s")
    if statistics.median(times) > MAX_LIST_S:
        failures.append("bench list is slow")
    store = Store(arguments.results, machine.name())
    before = num_launches(store)
    if not before:
        raise SystemExit(f"no launches in {store.folder}: run `make bench` first")
    results = ["--results", str(arguments.results)]
    with tempfile.TemporaryDirectory() as folder:  # what `make bench` does
        took = seconds("run", *results)
        took += seconds("show", "--format", "md", "--output", f"{folder}/table.md", *results)
        took += seconds("show", "--format", "csv", "--output", f"{folder}/table.csv", *results)
        took += seconds("plot", "--output", f"{folder}/plots", *results)
    new = num_launches(store) - before
    print(f"second sweep with {before} launches stored: {took:.1f} s, {new} new launches")
    if took > MAX_AGAIN_S:
        failures.append("the second sweep is slow")
    if new:
        failures.append("the second sweep measured again")
    instrument.finish(failures)


def seconds(*arguments: str) -> float:
    """How long a command takes."""
    start = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if name != "BENCH_PATH"}  # as a person has it
    subprocess.run(
        [BENCH, *arguments], check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return time.monotonic() - start


def num_launches(store: Store) -> int:
    """Launches stored."""
    return sum(len(record.launches) for record in store.read_all().values())


if __name__ == "__main__":
    main()
