"""What `bench search` reaches on this machine over each task's default, beside what it is to reach.

For each target the script runs the search, measures its winner side by side with TensorFlow's default, or the best of
the fixed matrix where nothing beats it, and prints both as Markdown, with the time of the winner by operator, and the
time that the model's products take at the peak rates of this machine. Started again it goes on: all that was measured
is stored in the folder of the results.

    python benchmarks/search_targets.py results/search --budget 20m > results/search/table.md
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.api.loss_units import DB, SHARE, AllowedLoss
from bench.features.search import saved
from bench.measure import machine
from bench.records import folder, machines
from bench.records.folder import Results
from bench.records.rows import Row

BENCH = (sys.executable, "-P", "-c", "from bench.cli.main import main; main()")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """A search and what it is to reach.

    Attributes:
        task: the task.
        objective: what is made small.
        most: the most that the winner may have: its latency over that of TensorFlow's default, or its megabytes.
    """

    task: str
    objective: str
    most: float

    @property
    def default(self) -> str:
        """Path of TensorFlow's default at one thread."""
        return f"{self.task}/tf/native/raw/tensorflow/cpu/b1t1"


TARGETS = (
    Target(task="crnn", objective="latency", most=1 / 5),
    Target(task="albert", objective="latency", most=1 / 4.5),
    Target(task="super_resolution", objective="latency", most=1 / 4),
    Target(task="albert", objective="size", most=1.0),
)


def bench(*arguments: str) -> str:
    """What a command prints; what it tells on its way is left on standard error."""
    done = subprocess.run([*BENCH, *arguments], stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout


def reached(target: Target, results: Path, budget: str) -> Iterator[str]:
    """Search, and yield the lines of a section."""
    began_s = time.monotonic()
    drop = AllowedLoss().option(SHARE, DB)
    place = ("--results", str(results))
    told = bench(
        "search", target.task, "--objective", target.objective, "--max-metric-drop", drop, "--budget", budget, *place
    )
    minutes = (time.monotonic() - began_s) / 60
    stored = folder.read(results)
    best = _answer(told)
    bench("run", best, target.default, "--launches", "10", "--budget", "60s", *place)
    bench("roofline", f"{target.task}/*/b1t1", *place)
    stored = folder.read(results)
    rows = {row.cell: row for row in stored.rows}
    yield f"## {target.task}, {target.objective}\n"
    yield f"{_figure(target, stored, rows[best])}\n"
    if target.objective == "latency":
        yield f"{_at_peak(stored, rows[best])}\n"
    yield f"`{best}`, found in {minutes:.0f} minutes. Proposals tried: {_tried(stored, target)}.\n"
    yield f"```\n{told.strip()}\n```\n"
    yield f"Time by operator:\n\n```\n{bench('explain', best, '--vs', target.default, *place).strip()}\n```\n"


def _answer(told: str) -> str:
    """The winner of a search, or the best of the fixed matrix where nothing beats it."""
    found = re.search(r"^(\S+)\nbeats |^Nothing (?:was shown to beat|beats) (\S+):", told, re.MULTILINE)
    if found is None:
        raise SystemExit("the search found no deployment that keeps the metric")
    return found[1] or found[2]


def _figure(target: Target, stored: Results, row: Row) -> str:
    if target.objective == "size":
        megabytes = (row.size_bytes or 0) / 1e6
        verdict = _verdict(megabytes, megabytes, target.most)
        return f"{megabytes:.3f} MB; at most {target.most:g} MB is asked: {verdict}."
    compared = stored.measurements.between(row.cell, target.default)
    if compared is None or compared.ratio is None:
        return "It was not measured side by side with TensorFlow's default."
    times = 1 / compared.ratio.value
    interval = f"[{1 / compared.ratio.high:.2f}, {1 / compared.ratio.low:.2f}]"
    asked = f"{1 / target.most:g} times is asked: {_verdict(compared.ratio.value, compared.ratio.high, target.most)}"
    return f"{times:.2f} times {interval} as fast as TensorFlow's default; {asked}."


def _at_peak(stored: Results, row: Row) -> str:
    """The time of all products of a model at the peak rates of large matrices, which no runtime is to exceed.

    Winograd's transforms do with fewer products, so for convolutions it is no bound.
    """
    peaks = stored.peaks.get(1)
    if row.macs is None or peaks is None:
        return "The peak rates of this machine were not measured."
    times = [
        f"{1e3 * row.macs / rate:.1f} ms in {precision} ({rate / 1e9:.0f} GMAC/s by {peaks.libraries[precision]})"
        for precision, rate in peaks.macs_per_s.items()
        if precision in ("float32", "bfloat16", "int8")
    ]
    return f"Its {row.macs / 1e6:.0f} million products at the rate of large matrices: {', '.join(times)}."


def _verdict(value: float, high: float, most: float) -> str:
    if high <= most:
        return "reached"
    return "reached by the estimate, and not shown" if value <= most else "not reached"


def _tried(stored: Results, target: Target) -> int:
    """How many proposals of all designs ran or failed in the search that was kept."""
    found = [
        one for one in saved.read(stored.folder) if (one.request[0], one.objective) == (target.task, target.objective)
    ]
    return sum(len(outcome.tried) for one in found for outcome in one.outcomes)


def main() -> int:
    """Print a section for each target; fails where one is not shown to be reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--budget", default="20m", help="of each search")
    parser.add_argument("--only", nargs="*", default=[], help="targets, as crnn-latency")
    given = parser.parse_args()
    print(f"# What a search reaches on {machine.name()}\n\n{machines.headline_today()}\n", flush=True)
    sections = []
    for target in TARGETS:
        if not given.only or f"{target.task}-{target.objective}" in given.only:
            sections.append("\n".join(reached(target, given.results, given.budget)))
            print(sections[-1], flush=True)
    return int(not all(": reached." in section for section in sections))


if __name__ == "__main__":
    sys.exit(main())
