"""The flow of a cell through the stages, as frozen values.

Each stage is one function from one value to the next, which returns the value, or the failure that stopped the cell:
`prepare.prepared`, `verify.verified`, and `measured` below for what the rounds brought.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.measure.launch import Launch
from bench.records.lines import Failure, Quality
from bench.records.measured import Measured


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """A cell whose artifact is made.

    Attributes:
        key: digest of all that the cell's figures depend on; the name of its record.
        subject: digests of the task and of its dataset (None where it has none).
    """

    cell: Cell
    artifact: Artifact
    key: str
    subject: tuple[str | None, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verified(Prepared):
    """A cell that runs, with the quality of its outputs, which may be broken.

    Attributes:
        inputs: `.npz` file with the held-out split's inputs.
    """

    quality: Quality
    inputs: Path


def measured(
    value: Prepared, launches: Sequence[Launch] = (), failure: Failure | None = None, *, time: str = ""
) -> Measured:
    """What is known of a cell, for the rows.

    Args:
        launches: those that the rounds brought.
        failure: what stopped the cell after this stage.
        time: when it was measured (ISO 8601); of cells of one task, the newest says which weights are the right ones.
    """
    return Measured(
        key=value.key,
        cell=value.cell,
        subject=value.subject,
        time=time,
        artifact=value.artifact.facts,
        quality=value.quality if isinstance(value, Verified) else None,
        launches=tuple(launches),
        failure=failure,
    )
