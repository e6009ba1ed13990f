"""Requests that tests of plugins make to a worker besides the pipeline's own: runs at several batch sizes.

`support.workers.Workers` sends them; each function answers the request that names it.
"""

from __future__ import annotations

import ast
import functools
import sys
import unittest.mock
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from bench.api import Samples
from bench.api.cell import Cell
from bench.pipeline import operations
from bench.plugins import catalog

NUM_FEW = 16
"""Samples of a verification that does not run the whole split."""


def run(
    *, runtime: str, provider: str, task: str, source: str, artifact: str, batches: list[int], target: str
) -> dict[str, Any]:
    """Save the outputs for the first test samples, at each batch size: `<batch>/<output>` in an npz file.

    Each batch has a session of its own, as in a sweep.
    """
    saved = {}
    for batch in batches:
        session, inputs = opened(runtime, provider, task, source, artifact)
        with session:
            for name, output in answers(session, task, taken(inputs, range(batch))).items():
                saved[f"{batch}/{name}"] = output
    np.savez(target, **saved)
    return {}


def lacking(name: str, code: str, requires: Collection[str]) -> str | None:
    """Which packages a plugin's code imports although its `requires` names none of them, in a sentence; None for none.

    The standard library, this package and NumPy are there wherever the harness is.
    """
    imported = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module)
    known = {*sys.stdlib_module_names, "bench", "numpy", *(package.partition(".")[0] for package in requires)}
    modules = sorted(module for module in imported if module.partition(".")[0] not in known)
    packages = ", ".join(sorted({module.partition(".")[0] for module in modules}))
    return f"requires of {name} lacks {packages} (imports: {', '.join(modules)})" if modules else None


def run_small(
    *,
    runtime: str,
    provider: str,
    task: str,
    source: str,
    artifact: str,
    num_samples: int,
    batches: list[int],
    target: str,
) -> dict[str, Any]:
    """Save the outputs for the first test samples in batches, as `<batch>/<output>`, and for two that are cropped.

    Cropped, as `cropped/<output>`, means that 3/8 is left of each dynamic dimension but that of the samples. Returns
    the parameters that the session tells of the artifact.
    """
    session, inputs = opened(runtime, provider, task, source, artifact)
    num_samples = min(num_samples, len(next(iter(inputs.values()))))
    saved = {}
    cropped = taken(inputs, range(2))
    for spec in catalog.task(task).inputs:
        sizes = zip(spec.shape[1:], cropped[spec.name].shape[1:], strict=True)
        corner = tuple(slice(size * 3 // 8 if isinstance(dim, str) else size) for dim, size in sizes)
        cropped[spec.name] = np.ascontiguousarray(cropped[spec.name][:, *corner])
    with session:
        for batch in batches:
            starts = range(0, num_samples, batch)
            parts = [answers(session, task, taken(inputs, range(start, start + batch))) for start in starts]
            for name in parts[0]:
                saved[f"{batch}/{name}"] = np.concatenate([part[name] for part in parts])[:num_samples]
        for name, output in answers(session, task, cropped).items():
            saved[f"cropped/{name}"] = output
        num_params = session.num_params
    np.savez(target, **saved)
    return {"num_params": num_params}


def verify_few(*, cell: str, **asked: Any) -> dict[str, Any]:
    """As `operations.verify`, of the first samples of the split instead of all."""
    task = catalog.task(Cell.from_path(cell).task)
    whole = task.samples("test")
    assert whole.targets is not None
    inputs = {name: array[:NUM_FEW] for name, array in whole.inputs.items()}
    first = Samples(inputs=inputs, targets=whole.targets[:NUM_FEW])
    with unittest.mock.patch.object(task, "samples", return_value=first):
        return operations.verify(cell=cell, **asked)


def late_imports(*, runtime: str, provider: str, task: str, source: str) -> dict[str, Any]:
    """Packages that building a model imports although the runtime and the task imported theirs before."""

    def imported() -> set[str]:
        return {name.partition(".")[0] for name in sys.modules}

    the_task = catalog.task(task)
    catalog.runtime(runtime).import_packages()
    the_task.import_packages(source)
    weights = the_task.weights_path  # which a task may make
    before = imported()
    the_task.build(source, weights)
    return {"packages": sorted(imported() - before - sys.stdlib_module_names)}


def opened(runtime: str, provider: str, task: str, source: str, artifact: str) -> tuple[Any, dict[str, np.ndarray]]:
    """A session and the test split's inputs."""
    plugin, the_task = catalog.runtime(runtime), catalog.task(task)
    plugin.import_packages()
    if builds := plugin.builds(Path(artifact)):
        the_task.import_packages(source)
    with unittest.mock.patch.object(the_task, "build", wraps=the_task.build) as build:
        session = plugin.open(Path(artifact), task=the_task, source=source, provider=provider, threads=1)
    assert build.called == builds, f"{runtime} says that it {'' if builds else 'does not'} build, and that is not so"
    return session, inputs_of(task)


@functools.cache
def inputs_of(task: str) -> dict[str, np.ndarray]:
    """The inputs of a task's test split, which one worker is asked for by many tests: nothing writes to them."""
    return dict(catalog.task(task).samples("test").inputs)


def taken(inputs: dict[str, np.ndarray], rows: range) -> dict[str, np.ndarray]:
    """As many samples as asked for, which begin again after the last."""
    return {name: np.take(array, rows, axis=0, mode="wrap") for name, array in inputs.items()}


def answers(session: Any, task: str, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs by name."""
    for array in feeds.values():
        array.flags.writeable = False  # a runtime may not write to what it is given
    outputs = session.run(feeds)
    named = {}
    for spec, output in zip(catalog.task(task).outputs, outputs, strict=True):
        assert isinstance(output, np.ndarray), type(output)
        named[spec.name] = output.copy()
    return named


def parameters(*, runtime: str, provider: str, task: str, source: str, artifact: str) -> dict[str, Any]:
    """The parameters that a session tells of an artifact, and what the artifact stores more than once."""
    session, _ = opened(runtime, provider, task, source, artifact)
    with session:
        return {"num_params": session.num_params, "repeated": session.repeated}


def own_parameters(*, task: str, source: str) -> dict[str, Any]:
    """The parameters of a task's model as PyTorch or Keras counts them, without statistics of normalizations."""
    definition = catalog.task(task)
    model = definition.build(source, definition.weights_path)
    if source == "torch":
        return {"num_params": sum(parameter.numel() for parameter in model.parameters())}
    statistics = sum(int(np.prod(weight.shape)) for weight in model.non_trainable_weights)
    return {"num_params": model.count_params() - statistics}
