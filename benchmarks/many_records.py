"""How long `bench show` takes over a folder of very many records: 10 s at most for 100,000.

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
MOST_S = 10.0
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
        alone_s = seconds(Path(folder), arguments.runs)
        print(f"{len(own)} records: {alone_s:.2f} s", flush=True)
        for key, text in copies(arguments.source, arguments.records - len(own)):
            (place / f"{key}.jsonl").write_text(text)
        taken_s = seconds(Path(folder), arguments.runs)
        print(f"{arguments.records} records: {taken_s:.2f} s; at most {MOST_S:.0f} s", flush=True)
    instrument.finish([f"{taken_s:.1f} s"] if taken_s > MOST_S else [])


def seconds(results: Path, runs: int) -> float:
    """The median time of `bench show` over a folder."""
    command = [str(sweeps.BENCH), "show", "--format", "csv", "--results", str(results)]
    found = []
    for _ in range(runs):
        start_s = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "BENCH_PATH": ""})
        found.append(time.monotonic() - start_s)
    return statistics.median(found)


if __name__ == "__main__":
    main()
