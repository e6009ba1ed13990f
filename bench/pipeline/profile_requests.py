"""Requests to a worker about the time of each node: see `bench.pipeline.operations`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from bench.api import Arrays, Task
from bench.api.arrays import load_arrays
from bench.api.cell import Cell
from bench.api.decoder import IDS
from bench.pipeline import feeding, operations
from bench.plugins import catalog, generating


def profile_nodes(*, cell: str, artifact: str, inputs: str, num_runs: int) -> dict[str, Any]:
    """Ask a runtime's own profiler for the time of each node; `nodes` is None where the runtime has no profiler."""
    known = Cell.from_path(cell)
    task, runtime = catalog.task(known.task), catalog.runtime(known.runtime)
    runtime.import_packages()
    feeds = first_request(task, inputs, known.batch)
    nodes = runtime.profile_nodes(
        Path(artifact), task=task, **operations.arguments_of(known), feeds=feeds, num_runs=num_runs
    )
    return {"nodes": None if nodes is None else [dataclasses.asdict(node) for node in nodes]}


def first_request(task: Task, inputs: str, batch: int) -> Arrays:
    """The first samples of a split, as many as a request has; of a generation, what the timed pass takes.

    Args:
        task: the task.
        inputs: path of an `.npz` file with the split's inputs.
        batch: number of samples in a request.
    """
    samples = load_arrays(Path(inputs))
    if task.request is not None:
        return generating.pass_feeds(task.request, samples[IDS][0].reshape(-1))
    num_samples = len(next(iter(samples.values())))
    return feeding.feeds(task, samples, [row % num_samples for row in range(batch)])
