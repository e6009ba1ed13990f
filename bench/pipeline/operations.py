"""What the pipeline asks of a worker: to make, verify, inspect, profile and open artifacts.

Each function answers the request that names it (see `bench.measure.process.Child.request`).
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from bench.api import Task
from bench.api.arrays import load_arrays, save_arrays
from bench.measure import clock
from bench.measure.memory import MemoryLog
from bench.measure.session import Opened
from bench.pipeline import feeding
from bench.plugins import catalog

if TYPE_CHECKING:
    from bench.measure.session import Feeds


def export(*, task: str, source: str, exporter: str, target: str) -> dict[str, Any]:
    """Make an artifact from a task."""
    from bench.plugins import steps  # only here: a worker that is measured needs no checks

    info = steps.export(catalog.exporter(exporter), catalog.task(task), source, Path(target))
    return _facts(info, Path(target))


def transform(*, task: str, variant: str, source: str, target: str) -> dict[str, Any]:
    """Make an artifact from another."""
    from bench.plugins import steps  # only here: a worker that is measured needs no checks

    info = steps.transform(catalog.variant(variant), catalog.task(task), Path(source), Path(target))
    return _facts(info, Path(target))


def _facts(info: dict[str, Any], path: Path) -> dict[str, Any]:
    """What is kept of a step: what its plugin returned, and what can be told from the file."""
    if path.suffix != ".onnx":
        return {"info": info, "canonical": None, "num_params": None, "operators": None}
    from bench.graphs.file.digest import canonical_digest, operator_counts
    from bench.graphs.weights.parameters import num_params

    return {
        "info": info,
        "canonical": canonical_digest(path),
        "num_params": num_params(path),
        "operators": operator_counts(path),
    }


def save_inputs(*, task: str, split: str, target: str) -> dict[str, Any]:
    """Write a split's inputs where measuring workers read them, so that none of them loads a dataset."""
    samples = catalog.task(task).samples(split)
    save_arrays(Path(target), samples.inputs)
    return {"num_samples": samples.num_samples}


def cost(*, artifact: str, shapes: dict[str, list[int]]) -> dict[str, Any]:
    """MACs and weights of an ONNX artifact; `macs` is None where the work of some node cannot be told."""
    from bench.graphs.costs.profile import profile

    found = profile(Path(artifact), shapes=shapes, observe=False)
    return {"macs": found.macs if found.is_complete else None, "weight_bytes": found.weight_bytes}


def verify(
    *,
    task: str,
    source: str,
    runtime: str,
    provider: str,
    artifact: str,
    batch: int,
    threads: int,
    reference: str | None,
    save_outputs: str | None,
) -> dict[str, Any]:
    """Run a whole split through an artifact and judge the outputs against the reference's."""
    from msgspec.structs import asdict  # only here: it would count in the memory of a worker that is measured

    from bench.pipeline import quality

    definition = catalog.task(task)
    samples = definition.samples("test")
    opener = catalog.runtime(runtime)
    opener.import_packages()
    with opener.open(Path(artifact), task=definition, source=source, provider=provider, threads=threads) as session:
        outputs = feeding.run_all(session.run, definition, samples, batch)
        expected = load_arrays(Path(reference)) if reference is not None else None
        judged = quality.judge(definition, samples, outputs, expected)
        if save_outputs is not None:
            save_arrays(Path(save_outputs), outputs)
        feeds = feeding.feeds(definition, samples.inputs, [0] * batch)
        made_bytes = sum(output.nbytes for output in outputs.values()) * batch // samples.num_samples
        return {
            **asdict(judged),
            "precision": session.precision,
            "num_params": session.num_params,
            "input_shapes": {name: array.shape for name, array in feeds.items()},
            "io_bytes": sum(array.nbytes for array in feeds.values()) + made_bytes,
            "rss_bytes": psutil.Process().memory_info().rss,
        }


def inspect(*, runtime: str, artifact: str, provider: str, shapes: dict[str, list[int]]) -> dict[str, Any]:
    """Ask a runtime what becomes of an artifact."""
    return catalog.runtime(runtime).inspect(Path(artifact), provider=provider, shapes=shapes)


def profile_nodes(
    *,
    task: str,
    source: str,
    runtime: str,
    provider: str,
    artifact: str,
    batch: int,
    threads: int,
    inputs: str,
    num_runs: int,
) -> dict[str, Any]:
    """Ask a runtime's own profiler where the time of an inference goes; `nodes` is None where it has none."""
    definition, opener = catalog.task(task), catalog.runtime(runtime)
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


def drift(
    *, task: str, before: str, after: str, batch: int, inputs: str, tolerance: float, names: dict[str, str] | None
) -> dict[str, Any]:
    """Find where one ONNX file's values first differ from another's: see `bench.graphs.diff.drift`."""
    from bench.graphs.diff import drift

    definition = catalog.task(task)
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
    samples = load_arrays(Path(inputs))
    num_samples = len(next(iter(samples.values())))
    return feeding.feeds(task, samples, [row % num_samples for row in range(batch)])


def import_packages(*, runtime: str) -> dict[str, Any]:
    """Import a runtime's packages; other workers do the same meanwhile, so its time is a rough one."""
    return {"import_ns": clock.time_call_ns(catalog.runtime(runtime).import_packages)}


def open_session(
    *, task: str, source: str, runtime: str, provider: str, artifact: str, batch: int, threads: int, inputs: str
) -> Opened:
    """Open an artifact and run it once, each step timed and its memory recorded."""
    definition, opener = catalog.task(task), catalog.runtime(runtime)
    feeds = _first_request(definition, inputs, batch)
    memory = MemoryLog()
    with memory.phase("imports"):
        opener.import_packages()
    with memory.phase("load"):
        load_ns, session = clock.time_call(
            lambda: opener.open(Path(artifact), task=definition, source=source, provider=provider, threads=threads)
        )
    with memory.phase("first_inference"):
        first_inference_ns = clock.time_call_ns(lambda: session.run(feeds))
    facts = {"load_ns": load_ns, "first_inference_ns": first_inference_ns, "quiet": clock.settle()}
    return Opened(session=session, feeds=feeds, memory=memory, facts=facts)
