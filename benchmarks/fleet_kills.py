"""Kills in a fleet: nodes, workers of the head, the driver and the head itself die at random moments of sweeps.

Three simulated machines share sweeps of the toy task on the null runtime. After each kill, the sweep goes on by itself,
or by the same command once what is dead is back. The script counts launches that are lost or stored twice, leases of
one machine that overlap, sweeps that end wrongly, and tracebacks.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from nodes import BENCH, Fleet

FAULTS = Path(__file__).parents[1] / "tests" / "faults"
CELLS = [f"toy/null/native/{variant}/null/cpu/b{batch}t1" for batch in (1, 2, 4) for variant in ("raw", "fewer")]
NAMES = ("head", "one", "two")
KINDS = ("node", "worker", "driver", "head")
ENDS_S = 240.0
"""Time in which a sweep ends after a kill, however it ends."""
GONE = 2
"""Exit code of a sweep whose head is gone."""


class Sweeps:
    """Sweeps of one folder, of which each asks for more launches than the one before."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet = fleet
        self.folder = folder
        self.launches = 0

    def start(self) -> subprocess.Popen[bytes]:
        """Begin the sweep, or go on with it."""
        how = ("--launches", str(self.launches), "--margin", "0.001%")
        with (self.folder / "said").open("wb") as said:
            return subprocess.Popen(
                [*BENCH, "fleet", "run", *CELLS, *self.fleet.how(), *how],
                cwd=self.folder,
                env=self.fleet.of("driver"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )

    def said(self) -> str:
        """What the latest command wrote to its standard error stream."""
        return (self.folder / "said").read_text(errors="replace")

    def lines(self) -> list[dict[str, Any]]:
        """Every whole launch that is stored."""
        found = []
        for path in (self.folder / "results").glob("*/*.jsonl"):
            *whole, _ = path.read_bytes().split(b"\n")
            found += [line for line in map(json.loads, whole) if line["kind"] == "launch"]
        return found


def overlaps(lines: list[dict[str, Any]]) -> int:
    """Pairs of neighbouring leases of one machine that overlap."""
    found = 0
    for place in {line["place"] for line in lines}:
        leases = sorted({tuple(line["lease_s"]) for line in lines if line["place"] == place})
        found += sum(before[1] > after[0] for before, after in itertools.pairwise(leases))
    return found


def strike(fleet: Fleet, kind: str, process: subprocess.Popen[bytes], generator: random.Random) -> str:
    """Kill something; returns what has to be started again, `driver` or the name of a node; empty for nothing."""
    if kind == "driver":
        process.kill()
        return "driver"
    if kind == "head":
        fleet.send(signal.SIGKILL, name="head")
        return "head"
    if kind == "worker":
        workers = fleet.processes("ray::", "head")
        if workers:
            generator.choice(workers).kill()
        return ""
    name = generator.choice(NAMES[1:])
    fleet.send(signal.SIGKILL, name=name)
    return name


def trial(sweeps: Sweeps, kind: str, generator: random.Random) -> collections.Counter[str]:
    """Kill something while a sweep runs, let the sweep come to its end, and count what went wrong."""
    fleet, wrong = sweeps.fleet, collections.Counter[str]()
    sweeps.launches += 3
    begun = len(sweeps.lines())
    process = sweeps.start()
    deadline = time.monotonic() + ENDS_S
    while len(sweeps.lines()) == begun and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(generator.uniform(0, 2.5))
    was_running = process.poll() is None
    kept = {line["launch"] for line in sweeps.lines()}
    dead = strike(fleet, kind, process, generator)
    try:
        code = process.wait(timeout=ENDS_S)
    except subprocess.TimeoutExpired:
        wrong["sweeps without an end"] += 1
        process.kill()
        code = process.wait()
    said = sweeps.said()
    wrong["tracebacks"] += "Traceback" in said
    expected = {"driver": (0, -signal.SIGKILL), "head": (0, GONE)}.get(kind, (0,))
    wrong["wrong ends"] += code not in expected
    if dead == "head":
        fleet.end()
        for name in NAMES:
            fleet.start(name)
    elif dead not in ("", "driver"):
        fleet.start(dead)
    if code:  # the same command goes on
        wrong["wrong ends"] += sweeps.start().wait(timeout=ENDS_S) != 0
        wrong["tracebacks"] += "Traceback" in sweeps.said()
    lines = sweeps.lines()
    counts = collections.Counter(line["launch"] for line in lines)
    wrong["lost launches"] += len(kept - counts.keys())
    wrong["launches stored twice"] += sum(number - 1 for number in counts.values())
    wrong["overlaps"] += overlaps(lines)
    if +wrong:
        print(f"{kind}: ended with {code}: {dict(+wrong)}", *sweeps.said().splitlines()[-8:], sep="\n  ", flush=True)
    return +wrong + collections.Counter({"running": int(was_running)})


def main() -> None:
    """Kill, and print what went wrong, or `passed`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    total: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet.at_free_port(Path(folder), BENCH_PATH=str(FAULTS))
        try:
            for name in NAMES:
                fleet.start(name)
            sweeps = Sweeps(fleet, Path(folder))
            for number in range(arguments.kills):
                kind = arguments.kinds[number % len(arguments.kinds)]
                total += trial(sweeps, kind, generator)
                print(f"{number + 1} {kind}: {len(sweeps.lines())} launches stored", flush=True)
        finally:
            fleet.end()
        num_places = len({line["place"] for line in sweeps.lines()})
    num_running = total.pop("running", 0)
    print(f"{arguments.kills} kills, {num_running} of them while the sweep ran, on {num_places} machines")
    print(", ".join(f"{count} {name}" for name, count in total.items() if count) or "passed")
    sys.exit(1 if total else 0)


if __name__ == "__main__":
    main()
