"""Opens a session, keeps it busy, and prints how the work was spread: `python -P threads_child.py '<request>'`.

A request is a JSON object with runtime, provider, task, source, artifact and threads. The answer is a JSON object
with the share of processor time of each thread that had any, largest first, and whether all were quiet soon after.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from bench.measure import clock
from bench.measure.process import thread_environment
from bench.plugins import catalog

BUSY_S = 0.5


def nanoseconds_by_thread() -> dict[str, int]:
    """Time that each thread of this process has run."""
    found = {}
    for path in Path("/proc/self/task").iterdir():
        found[path.name] = int((path / "schedstat").read_text().split()[0])
    return found


def first(samples: dict[str, Any], count: int) -> dict[str, Any]:
    """The inputs of the first samples."""
    return {name: array[:count].copy() for name, array in samples.items()}


def spread(*, runtime: str, provider: str, task: str, source: str, artifact: str, threads: int) -> dict[str, Any]:
    """Run eight test samples at a time, or one where that takes long, until half a second of processor time is used."""
    opener, the_task = catalog.runtime(runtime), catalog.task(task)
    os.environ.update(thread_environment(threads) | opener.environment(threads))
    opener.import_packages()
    samples = the_task.samples("test").inputs
    session = opener.open(Path(artifact), task=the_task, source=source, provider=provider, threads=threads)
    start = time.process_time()
    session.run(first(samples, 1))
    # Eight at a time: what a framework does around the model takes a small share of the time.
    feeds = first(samples, 1 if time.process_time() > start + BUSY_S else 8)
    for _ in range(2):  # some compile at the first, for each number of samples
        session.run(feeds)
    clock.settle()
    before, start = nanoseconds_by_thread(), time.process_time()
    while time.process_time() < start + BUSY_S:
        session.run(feeds)
    after, quiet = nanoseconds_by_thread(), clock.settle()
    used = sorted((after[thread] - before.get(thread, 0) for thread in after), reverse=True)
    return {"shares": [time_ns / sum(used) for time_ns in used if time_ns], "quiet": quiet}


if __name__ == "__main__":
    print(json.dumps(spread(**json.loads(sys.argv[1]))))
