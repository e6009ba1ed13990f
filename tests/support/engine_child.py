"""Exports a task and runs it several times, in a process of its own: `python -P engine_child.py '<request>'`.

A request is a JSON object with task, exporter, runtime, artifact (to write), feeds (an .npz of `<number>/<input>`) and
target (an .npz of `<number>/<output>`, to write).
"""

from __future__ import annotations

import collections
import json
import sys
from pathlib import Path

import numpy as np

from bench.plugins import catalog, steps


def run(*, task: str, exporter: str, runtime: str, artifact: str, feeds: str, target: str) -> None:
    the_task, opener = catalog.task(task), catalog.runtime(runtime)
    (source,) = catalog.exporter(exporter).sources
    steps.export(catalog.exporter(exporter), the_task, source, Path(artifact))
    opener.import_packages()
    requests: dict[str, dict[str, np.ndarray]] = collections.defaultdict(dict)
    with np.load(feeds) as file:
        for key, array in file.items():
            number, _, name = key.partition("/")
            requests[number][name] = array
    saved = {}
    with opener.open(Path(artifact), task=the_task, source=source, provider="cpu", threads=1) as session:
        for number, fed in requests.items():
            for spec, output in zip(the_task.outputs, session.run(fed), strict=True):
                saved[f"{number}/{spec.name}"] = np.array(output)
    np.savez(target, **saved)


if __name__ == "__main__":
    run(**json.loads(sys.argv[1]))
