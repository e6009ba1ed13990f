"""How long `bench show` and `bench report` take over a folder of very many records: 10 s and 60 s at most for 100,000.

`bench report` takes 1 GiB of memory at most; its page shows a part of the cells, and says so.

The folder holds the records of a published one with their launches, and copies of them without launches under other
names, as a sweep has them that prepares and verifies many cells and times few. Launches are fitted together, which
takes more than linear time: how much is printed as well, by the number of launches of the folder alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import instrument
import sweeps

RESULTS = Path(__file__).parents[1] / "results"
MOST_S = {"show": 10.0, "report": 60.0}
MOST_BYTES = 2**30
"""Resident memory of `bench report`, at most."""
LAUNCHES = ("launch", "thread_launch", "load_launch", "load_run")


def copies(source: Path, number: int) -> Iterator[tuple[str, str]]:
    """Keys and texts of so many records without launches, as those of a folder."""
    texts = []
    for path in sorted(source.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        texts.append([line for line in lines if line["kind"] not in LAUNCHES])
    for index in range(number):
        header, *others = texts[index % len(texts)]
        task, framework, exporter, variant, *rest = header["cell"].split("/")
        cell = "/".join((task, framework, exporter, f"{variant}+v{index}", *rest))
        key = hashlib.sha256(cell.encode()).hexdigest()[:24]
        lines = [{**header, "cell": cell, "key": key}, *others]
        yield key, "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def main() -> None:
    """Make the folder, and print how long the command takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=next(filter(Path.is_dir, (RESULTS / "reference").glob("amd*"))))
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / arguments.source.name
        place.mkdir()
        own = sorted(arguments.source.glob("*.jsonl"))
        for path in own:
            (place / path.name).write_bytes(path.read_bytes())
        for command in MOST_S:
            alone_s, _ = taken(command, Path(folder), arguments.runs)
            print(f"{command}, {len(own)} records: {alone_s:.2f} s", flush=True)
        for key, text in copies(arguments.source, arguments.records - len(own)):
            (place / f"{key}.jsonl").write_text(text)
        wrong = []
        for command, most_s in MOST_S.items():
            wall_s, peak_bytes = taken(command, Path(folder), arguments.runs)
            said = f"{command}, {arguments.records} records: {wall_s:.2f} s and {peak_bytes / 2**20:.0f} MiB"
            print(f"{said}; at most {most_s:.0f} s", flush=True)
            if wall_s > most_s or (command == "report" and peak_bytes > MOST_BYTES):
                wrong.append(said)
    instrument.finish(wrong)


def taken(command: str, results: Path, runs: int) -> tuple[float, int]:
    """The median time of a command over a folder, and the most memory that it took."""
    how = {"show": ["--format", "csv"], "report": ["--output", str(results / "page.html")]}[command]
    found, peak_bytes = [], 0
    for _ in range(runs):
        start_s = time.monotonic()
        process = subprocess.Popen(
            [str(sweeps.BENCH), command, *how, "--results", str(results)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "BENCH_PATH": ""},
        )
        _, status, used = os.wait4(process.pid, 0)
        found.append(time.monotonic() - start_s)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"bench {command} ended with {process.returncode}")
        peak_bytes = max(peak_bytes, used.ru_maxrss * 1024)
    return statistics.median(found), peak_bytes


if __name__ == "__main__":
    main()
