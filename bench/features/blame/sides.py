"""The two sides of a blame: what runs on each, and the request that both answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from bench.api import NodeTime
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, ChildError, InputError
from bench.measure.limits import Limits
from bench.pipeline import prepare, profiling
from bench.plugins import catalog
from bench.records.lines import Failure

ONNX = "onnx"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two sides.

    Attributes:
        name: as it is shown: a cell, a version or a file.
        cell: the cell whose runtime runs it.
        artifact: the file that it runs.
    """

    name: str
    cell: Cell
    artifact: Artifact


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """Both sides, and the cell whose samples they run.

    Attributes:
        before: the first side, A.
        after: the second side, B.
        samples: a cell of the task whose held-out samples both run.
        notes: lines to tell the user.
    """

    before: Side
    after: Side
    samples: Cell
    notes: tuple[str, ...] = ()

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.before, self.after

    @property
    def is_one_file(self) -> bool:
        """Whether both sides run the same file."""
        return self.before.artifact.sha256 == self.after.artifact.sha256

    def uncuttable(self) -> str | None:
        """Why no part can be cut out of what the sides run; None where parts can be."""
        formats = {side.artifact.format for side in self.sides}
        if formats == {ONNX}:
            return None
        return f"parts are cut out of ONNX files, and these are {' and '.join(sorted(formats))}"


def prepared(cell: Cell, limits: Limits, name: str | None = None) -> Side:
    """The side of a cell, whose artifact is made or taken from the cache.

    Raises:
        InputError: the cell cannot run here.
        ArtifactError: the artifact cannot be made.
    """
    if (reason := prepare.skip_reason(cell)) is not None:
        raise InputError(f"{cell} cannot run here: {reason}")
    value = prepare.prepared(cell, limits)
    if isinstance(value, Failure):
        raise ArtifactError(f"{cell}: {value.reason}")
    return Side(name=name or cell.path, cell=cell, artifact=value.artifact)


def of_cells(before: Cell, after: Cell, limits: Limits, names: Sequence[str | None] = (None, None)) -> Pair:
    """Two cells that answer the same request.

    Raises:
        InputError: they are of different tasks, batches or threads, or cannot run here.
        ArtifactError: an artifact cannot be made.
    """
    if before.group != after.group:
        raise InputError(f"{before} and {after} answer different requests; name cells of one task, batch and threads")
    first, second = (prepared(cell, limits, name) for cell, name in zip((before, after), names, strict=True))
    return Pair(before=first, after=second, samples=after)


def inputs_of(pair: Pair, limits: Limits) -> Path:
    """The held-out samples that both sides run, as an `.npz` file."""
    return prepare.inputs_of(catalog.task(pair.samples.task), limits)


def profile(side: Side, pair: Pair, limits: Limits) -> tuple[Sequence[NodeTime] | None, str | None]:
    """The nodes that a side runs, by its runtime's own profiler; None, and the reason, where there is no profile."""
    try:
        nodes = profiling.profile_nodes(side.cell, side.artifact, catalog.task(pair.samples.task), limits)
    except ChildError as error:
        return None, f"the profiler of {side.cell.runtime} failed: {error.reason}"
    return nodes, f"{side.cell.runtime} has no profiler that can be asked" if nodes is None else None
