"""The flow of a cell through the stages, as frozen values.

Each stage is one function from one value to the next. The function returns the next value, or the failure that stopped
the cell: `prepare.prepared`, `verify.verified`, and `measured` below, which adds the launches of the rounds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.measure.launch import Launch
from bench.records.lines import Failure, Header, Quality
from bench.records.measured_cell import Measured


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """A cell whose artifact is made.

    Attributes:
        key: digest of all that the cell's figures depend on, and the name of its record.
        subject: digests of the task and of its dataset (None where it has none).
    """

    cell: Cell
    artifact: Artifact
    key: str
    subject: tuple[str | None, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verified(Prepared):
    """A cell that runs, with the quality of its outputs (the outputs may be broken).

    Attributes:
        inputs: `.npz` file with the held-out split's inputs.
    """

    quality: Quality
    inputs: Path

    @classmethod
    def of(cls, value: Prepared, *, quality: Quality, inputs: Path) -> Verified:
        """A prepared cell, or a cell that is verified again, with the quality that was found."""
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(Prepared)}
        return cls(**fields, quality=quality, inputs=inputs)


def measured(
    value: Prepared, launches: Sequence[Launch] = (), failure: Failure | None = None, *, time: str = ""
) -> Measured:
    """A cell with its figures, for the rows.

    Args:
        value: the cell after its last stage.
        launches: the launches that the rounds brought.
        failure: what stopped the cell after its last stage.
        time: when the cell was measured (ISO 8601); of the cells of one task, the newest defines the current weights.
    """
    artifact = value.artifact.facts
    header = Header(key=value.key, cell=value.cell.path, subject=value.subject, time=time, artifact=artifact)
    quality = value.quality if isinstance(value, Verified) else None
    return Measured(cell=value.cell, header=header, quality=quality, launches=tuple(launches), failure=failure)
