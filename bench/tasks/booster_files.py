"""Examination of a model in XGBoost's or LightGBM's own file, which takes a table of numbers and holds no code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.api import TensorSpec
from bench.api.errors import InputError
from bench.plugins.engines.estimators import INPUT, NUM_TRIED
from bench.plugins.engines.feature_ranges import Ranges
from bench.tasks import probe, sizes
from bench.tasks.options import Asked, Found
from bench.tasks.user_task import OwnTask


def check(of: Callable[[Path], None], path: Path, what: str, *, advice: str = "") -> None:
    """Check the counts and places in a file before its package opens it.

    Args:
        of: the check of the file's format.
        path: the file.
        what: the beginning of the message.
        advice: its end.

    Raises:
        InputError: they do not fit one another; the message names the field.
    """
    try:
        of(path)
    except InputError as error:
        raise InputError(f"{what}: {error}{advice}") from error


def facts_of(task: type[OwnTask], run: probe.Run, options: Asked, *, num_features: int, ranges: Ranges | None) -> Found:
    """The facts about such a model.

    Args:
        task: the class of its task.
        run: runs it once.
        options: sizes and samples that the user gave.
        num_features: columns of the table.
        ranges: the least and the largest value of each column of made-up tables; None where the model tells none.

    Raises:
        InputError: the model does not run.
    """
    inputs = (TensorSpec(name=INPUT, dtype="float32", shape=(probe.BATCH, num_features)),)
    domains = {INPUT: ranges} if ranges is not None else {}
    return sizes.choose(task, run, inputs, options, domains=domains, num_samples=NUM_TRIED)
