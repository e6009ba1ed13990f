"""Why one deployment is slower than another, or answers otherwise: what a feature finds of it, by measuring parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from bench.api import features
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, InputError
from bench.measure.limits import Limits
from bench.pipeline import prepare
from bench.pipeline.flow import Prepared
from bench.records.lines import Failure

FOLDER = Path("blame")
"""Folder in which reproducers are written unless another is named."""
UNTOLD = "which part makes the difference cannot be told"
"""Begins what is said in place of an answer, before the reason."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """What is to be found out.

    Attributes:
        before, after: both sides, of one request.
        names: how the sides are named in what is told.
        is_drift: whether outputs are looked for instead of latency.
        budget_s: seconds for it.
        limits: time and memory of each process.
        folder: where a reproducer may be written.
        tell: called with a line before each step.
    """

    before: Prepared
    after: Prepared
    names: tuple[str, str]
    is_drift: bool = False
    budget_s: float
    limits: Limits
    folder: Path = FOLDER
    tell: Callable[[str], None] = lambda _: None


def explained(question: Question) -> str:
    """A line that says which part of the model explains the difference, and where its reproducer is.

    Raises:
        InputError: no feature here finds that out.
        BenchError: a side cannot be measured.
    """
    for module in features.modules("slowdown"):
        return str(module.explain(question))
    raise InputError("nothing is installed here that finds out which part of a model is slower")


def of_cell(cell: Cell, limits: Limits) -> Prepared:
    """A cell ready for a question.

    Raises:
        ArtifactError: its artifact cannot be made.
    """
    value = prepare.prepared(cell, limits)
    if isinstance(value, Failure):
        raise ArtifactError(f"{cell}: {value.reason}")
    return value
