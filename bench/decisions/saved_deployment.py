"""A saved deployment, opened and judged again: what `bench.load_deployment` and `bench.evaluate_deployment` do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.api import Session, Task
from bench.api.decoder import IDS
from bench.api.errors import InputError
from bench.api.plugin import Arrays, Outputs
from bench.api.printable import printable
from bench.decisions import deployment
from bench.decisions.ports import gives
from bench.measure.limits import Limits
from bench.pipeline import feeding, judging, operations, verify
from bench.plugins import catalog


def load(folder: Path) -> Callable[[Arrays], Arrays]:
    """Open the artifact of a saved folder as it was measured, for runtimes that have no code of their own.

    Returns:
        A function from input arrays by name to output arrays by name.

    Raises:
        InputError: the folder is not a saved pick, its task is no longer here, or the runtime lacks the provider here.
    """
    recipe = deployment.read(folder)
    cell, task = recipe.cell, recipe.task()
    runtime = catalog.runtime(cell.runtime)
    provider = str(cell.provider)
    runtime.check_provider(provider)
    runtime.import_packages()
    session = runtime.open(recipe.artifact, task=task, source=cell.source, provider=provider, threads=cell.threads)
    return Loaded(session, task)


class Loaded:
    """A function from input arrays by name to output arrays by name.

    Args:
        session: the opened artifact; of a decoder, the function answers a request with its `tokens`.
        task: its task.
    """

    def __init__(self, session: Session, task: Task) -> None:
        self._session, self._task = session, task

    def __call__(self, feeds: Arrays) -> Arrays:
        request = self._task.request
        if request is not None and not (feeds[IDS].ndim <= 2 and 1 <= feeds[IDS].size == feeds[IDS].shape[-1]):
            raise InputError(f"it answers one prompt at a time, {IDS} of (1, tokens), not {feeds[IDS].shape}")
        if request is not None and feeds[IDS].size > request.num_prompt:
            raise InputError(
                f"it was measured with prompts of {request.num_prompt} tokens, fewer than {feeds[IDS].size}"
            )
        return dict(zip((spec.name for spec in gives(self._task)), self._session.run(feeds), strict=True))

    def judged(self) -> Callable[[Arrays], Arrays]:
        """The function whose outputs are judged, which gives all of the task's."""
        run, names = operations.judged_call(self._session), [spec.name for spec in self._task.outputs]
        return lambda feeds: dict(zip(names, run(feeds), strict=True))


def evaluate(folder: Path, predict: Callable[[Arrays], Arrays]) -> str:
    """Evaluate a function on the held-out samples of a deployment's task.

    Args:
        folder: the folder of the deployment.
        predict: a function from input arrays by name to output arrays by name.

    Returns:
        The loss and the metrics, each on a line, beside the measured values.

    Raises:
        InputError: the folder is not a saved pick, or its task is no longer here.
        ArtifactError: the outputs of `predict` do not fit the task.
    """
    recipe = deployment.read(folder)
    task = recipe.task()
    names = [spec.name for spec in task.outputs]
    whole = predict.judged() if isinstance(predict, Loaded) else predict

    def run(feeds: Arrays) -> Outputs:
        outputs = whole(feeds)
        return [outputs[name] for name in names]

    samples = task.samples("test")
    outputs = feeding.run_all(run, task, samples, recipe.cell.batch)
    expected = None
    if samples.targets is None or task.request is not None:  # then they are the reference's outputs
        expected = feeding.load_outputs(verify.reference_of(task, Limits.of(step_s=None, memory_bytes=None)).outputs)
    judged = judging.judge(task, samples, outputs, expected, precision=recipe.precision)
    if judged.metrics is None:
        return printable(f"broken: {judged.reason}")
    lines = [f"loss {_figure(judged.loss)} (measured: {_figure(recipe.loss)})"]
    for name, value in judged.metrics.items():
        beside = f" (measured: {_figure(recipe.metric)})" if name == task.metric_name else ""
        lines.append(printable(f"{name} {_figure(value)}{beside}"))
    return "\n".join(lines)


def _figure(value: float | None) -> str:
    """A figure as text; a figure is unknown where the samples bring no loss, or where it is not a finite number."""
    return "unknown" if value is None else f"{value:.6g}"
