"""The child's side: does one request at a time, in a process of its own with limits.

Requests come as lines of JSON on standard input and are answered as lines of JSON on what was standard output;
whatever packages print goes to standard error, which the parent keeps for the day they fail.
Run as `python -P -m bench.measure.worker SETTINGS`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import Session, Task
from bench.arrays import save_arrays
from bench.measure import clock
from bench.measure.confine import confine

if TYPE_CHECKING:
    import numpy as np

    from bench.measure.memory import MemoryLog

Feeds = Mapping[str, "np.ndarray"]
OPERATIONS: dict[str, Callable[..., dict[str, Any]]] = {}
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""With which some packages adorn their messages, for a terminal."""


def operation(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Make a function answer requests of its name."""
    OPERATIONS[function.__name__] = function
    return function


class _Opened:
    """What this process holds between requests."""

    confined: dict[str, bool]
    session: Session
    feeds: Feeds
    memory: MemoryLog


@operation
def protection() -> dict[str, Any]:
    """What this system lets a worker do, and how its memory is measured."""
    from bench.measure.memory import MemoryLog

    return {**_Opened.confined, "memory_method": MemoryLog().method}


@operation
def export(*, task: str, source: str, exporter: str, target: str) -> dict[str, Any]:
    """Make an artifact from a task."""
    from bench import plugins

    info = plugins.exporter(exporter).export(plugins.task(task), source, Path(target))
    return _facts(info, Path(target))


@operation
def transform(*, task: str, variant: str, source: str, target: str) -> dict[str, Any]:
    """Make an artifact from another."""
    from bench import plugins

    named = plugins.variant(variant)
    info = named.variant.apply(Path(source), Path(target), option=named.option, task=plugins.task(task))
    return _facts(info, Path(target))


def _facts(info: object, path: Path) -> dict[str, Any]:
    """What is kept of a step: what its plugin returned, and what can be told from the file."""
    if not isinstance(info, dict):
        raise TypeError(f"it returned {type(info).__name__}; it must return a dict of what is worth keeping")
    if not path.is_file() or path.stat().st_size == 0:
        raise ValueError("no artifact was written")
    if path.suffix != ".onnx":
        return {"info": info, "canonical": None, "num_params": None, "operators": None}
    from bench.analysis.graph import canonical_digest, num_params, operator_counts

    return {
        "info": info,
        "canonical": canonical_digest(path),
        "num_params": num_params(path),
        "operators": operator_counts(path),
    }


@operation
def examine_model(
    *, module: str, path: str, folder: str, data: str | None, dims: list[str], shapes: list[str], trust: bool
) -> dict[str, Any]:
    """Open a model from outside and write the folder of its task."""
    from bench.own.examine import examine

    place = Path(data) if data else None
    return examine(
        module=module, path=Path(path), folder=Path(folder), data=place, dims=dims, shapes=shapes, trust=trust
    )


@operation
def analyse(*, request: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Do one of the requests of `bench.analysis.requests` with ONNX files from outside."""
    from bench.analysis import requests

    return requests.REQUESTS[request](**arguments)


@operation
def cost(*, artifact: str, shapes: dict[str, list[int]]) -> dict[str, Any]:
    """MACs and weights of an ONNX artifact; `macs` is None where the work of some node cannot be told."""
    from bench.analysis.profiling import profile

    found = profile(Path(artifact), shapes=shapes, observe=False)
    return {"macs": found.macs if found.is_complete else None, "weight_bytes": found.weight_bytes}


@operation
def peaks(*, num_threads: int) -> dict[str, Any]:
    """What this machine can do at most."""
    from bench.measure import peaks

    return dataclasses.asdict(peaks.measure(num_threads))


@operation
def save_inputs(*, task: str, split: str, target: str) -> dict[str, Any]:
    """Write a split's inputs where measuring workers read them, so that none of them loads a dataset."""
    from bench import plugins

    samples = plugins.task(task).samples(split)
    save_arrays(Path(target), samples.inputs)
    return {"num_samples": samples.num_samples}


@operation
def verify(
    *, task: str, source: str, runtime: str, provider: str, artifact: str, batch: int, threads: int,
    reference: str | None, save_outputs: str | None,
) -> dict[str, Any]:  # fmt: skip
    """Run a whole split through an artifact and judge the outputs against the reference's."""
    import numpy as np

    from bench import feeding, plugins, quality

    definition = plugins.task(task)
    samples = definition.samples("test")
    opener = plugins.runtime(runtime)
    opener.import_packages()
    session = opener.open(Path(artifact), task=definition, source=source, provider=provider, threads=threads)
    outputs = feeding.run_all(session.run, definition, samples, batch)
    expected = None
    if reference is not None:
        with np.load(reference) as file:
            expected = dict(file)
    judged = quality.judge(definition, samples, outputs, expected)
    if save_outputs is not None:
        save_arrays(Path(save_outputs), outputs)
    feeds = feeding.feeds(definition, samples.inputs, [0] * batch)
    made_bytes = sum(output.nbytes for output in outputs.values()) * batch // samples.num_samples
    result = {
        **judged,
        "precision": session.precision,
        "num_params": session.num_params,
        "input_shapes": {name: array.shape for name, array in feeds.items()},
        "io_bytes": sum(array.nbytes for array in feeds.values()) + made_bytes,
        "rss_bytes": _rss_bytes(),
    }
    session.close()
    return result


@operation
def inspect(*, runtime: str, artifact: str, provider: str, shapes: dict[str, list[int]]) -> dict[str, Any]:
    """Ask a runtime what becomes of an artifact."""
    from bench import plugins

    return plugins.runtime(runtime).inspect(Path(artifact), provider=provider, shapes=shapes)


def _rss_bytes() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)


@operation
def profile_nodes(
    *, task: str, source: str, runtime: str, provider: str, artifact: str, batch: int, threads: int, inputs: str,
    num_runs: int,
) -> dict[str, Any]:  # fmt: skip
    """Ask a runtime's own profiler where the time of an inference goes; `nodes` is None where it has none."""
    from bench import plugins

    definition, opener = plugins.task(task), plugins.runtime(runtime)
    opener.import_packages()
    found = opener.profile_nodes(
        Path(artifact),
        task=definition,
        source=source,
        provider=provider,
        threads=threads,
        feeds=_first_request(definition, inputs, batch),
        num_runs=num_runs,
    )
    return {"nodes": None if found is None else [dataclasses.asdict(node) for node in found]}


@operation
def drift(
    *, task: str, before: str, after: str, batch: int, inputs: str, tolerance: float, names: dict[str, str] | None
) -> dict[str, Any]:
    """Find where one ONNX file's values first differ from another's: see `bench.analysis.drift`."""
    from bench import plugins
    from bench.analysis import drift

    definition = plugins.task(task)
    found = drift.find(
        Path(before),
        Path(after),
        feeds=_first_request(definition, inputs, batch),
        outputs=[spec.name for spec in definition.outputs],
        tolerance=tolerance,
        names=names,
    )
    return dataclasses.asdict(found)


def _first_request(task: Task, inputs: str, batch: int) -> Feeds:
    """The first samples of a split, as many as a request has; no other is kept, for its memory is not the model's."""
    import numpy as np

    from bench import feeding

    with np.load(inputs) as file:
        samples = dict(file)
    num_samples = len(next(iter(samples.values())))
    return feeding.feeds(task, samples, [row % num_samples for row in range(batch)])


@operation
def import_packages(*, runtime: str) -> dict[str, Any]:
    """Import a runtime's packages; other workers do the same meanwhile, so its time is a rough one."""
    from bench import plugins

    return {"import_ns": clock.time_call_ns(plugins.runtime(runtime).import_packages)}


@operation
def open_session(
    *, task: str, source: str, runtime: str, provider: str, artifact: str, batch: int, threads: int, inputs: str
) -> dict[str, Any]:
    """Open an artifact and run it once, each step timed and its memory recorded."""
    from bench import plugins
    from bench.measure.memory import MemoryLog

    definition, opener = plugins.task(task), plugins.runtime(runtime)
    _Opened.feeds = arrays = _first_request(definition, inputs, batch)
    _Opened.memory = memory = MemoryLog()
    with memory.phase("imports"):
        opener.import_packages()

    def load() -> None:
        _Opened.session = opener.open(
            Path(artifact), task=definition, source=source, provider=provider, threads=threads
        )

    with memory.phase("load"):
        load_ns = clock.time_call_ns(load)
    with memory.phase("first_inference"):
        first_inference_ns = clock.time_call_ns(lambda: _Opened.session.run(arrays))
    return {
        "load_ns": load_ns,
        "first_inference_ns": first_inference_ns,
        "quiet": clock.settle(),
        "confined": _Opened.confined,
    }


@operation
def burst(*, warm_ns: int, target_ns: int, min_runs: int, max_runs: int) -> dict[str, Any]:
    """Run the open session for a short while and become quiet again."""
    plan = clock.BurstPlan(warm_ns=warm_ns, target_ns=target_ns, min_runs=min_runs, max_runs=max_runs)
    cold, steady = clock.burst(_Opened.session.run, _Opened.feeds, plan)
    return {"cold_ns": cold, "steady_ns": steady, "quiet": clock.settle()}


@operation
def finish() -> dict[str, Any]:
    """Record the memory of the steady state and close the session."""
    with _Opened.memory.phase("steady"):
        _Opened.session.run(_Opened.feeds)
    _Opened.session.close()
    return {"memory": _Opened.memory.as_json()}


def answer(line: str) -> str:
    """The reply to one request: its result, or what it raised."""
    request = json.loads(line)
    number = {"id": request.get("id")}
    try:
        result = OPERATIONS[request["operation"]](**request["arguments"])
        return json.dumps({**number, "result": result}, allow_nan=False)  # what a plugin gave may be anything
    except MemoryError:
        reply = {"error": "out of memory", "kind": "memory", "traceback": traceback.format_exc()}
    except Exception as error:
        from bench.errors import RefusedError

        kind = "refused" if isinstance(error, RefusedError) else "error"
        reply = {"error": _one_line(error), "kind": kind, "traceback": traceback.format_exc()}
    return json.dumps({**number, **reply})


def _one_line(error: Exception) -> str:
    from bench.errors import BenchError

    text = " ".join(COLOURS.sub("", str(error)).split())
    text = text if len(text) <= 300 else text[:297] + "..."
    return text if isinstance(error, BenchError) else f"{type(error).__name__}: {text}"


def main() -> None:
    """Answer requests until the parent closes the pipe."""
    settings = json.loads(sys.argv[1])
    _Opened.confined = confine(parent_pid=settings["parent_pid"], memory_bytes=settings["memory_bytes"])
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        replies.write(answer(line) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
