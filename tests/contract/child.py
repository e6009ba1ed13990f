"""Does one thing with a plugin in a process of its own, as the harness does: `python -P child.py '<request>'`.

A request is a JSON object: `do` names a function below, the rest are its arguments.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from bench import plugins


def export(*, exporter: str, task: str, source: str, target: str) -> None:
    """Write an artifact."""
    info = plugins.exporter(exporter).export(plugins.task(task), source, Path(target))
    json.dumps(info, allow_nan=False)  # it is kept as JSON


def apply(*, variant: str, task: str, artifact: str, target: str) -> None:
    """Write a variant of an artifact."""
    named = plugins.variant(variant)
    info = named.variant.apply(Path(artifact), Path(target), option=named.option, task=plugins.task(task))
    json.dumps(info, allow_nan=False)


def run(*, runtime: str, provider: str, task: str, source: str, artifact: str, batches: list[int], target: str) -> None:
    """Save the outputs for the first test samples, at each batch size: `<batch>/<output>` in an npz file."""
    plugin, the_task = plugins.runtime(runtime), plugins.task(task)
    os.environ.update(plugin.environment(1))
    plugin.import_packages()
    import numpy as np

    inputs = the_task.samples("test").inputs
    session = plugin.open(Path(artifact), task=the_task, source=source, provider=provider, threads=1)
    saved = {}
    for batch in batches:
        feeds = {name: np.take(array, range(batch), axis=0, mode="wrap") for name, array in inputs.items()}
        for array in feeds.values():
            array.flags.writeable = False  # a runtime may not write to what it is given
        outputs = session.run(feeds)
        for spec, output in zip(the_task.outputs, outputs, strict=True):
            assert isinstance(output, np.ndarray), type(output)
            saved[f"{batch}/{spec.name}"] = output.copy()
    session.close()
    np.savez(target, **saved)


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    {"export": export, "apply": apply, "run": run}[request.pop("do")](**request)
