"""The parameters of each row: how many, where they were counted, and why they are not as many as the source has."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bench.api.cell import Cell
from bench.onnxfile.operators import ML, NCHWC
from bench.records.measured_cell import Measured
from bench.records.rows import Row

FILE, SOURCE = "file", "source"
"""Where parameters were counted: in the file that the row runs, or in the model that the file was made of."""
_FOLDED = 0.01
"""Share of the source's parameters that folding explains: of normalizations into weights, of two biases into one."""
_NATIVE = "native"
_OPENVINO = "openvino"
_MADE_OF = ("pt2", "torch")
"""Formats that cannot be read: their runtime tells what the exporter or the variant counted in the source."""


class Sources:
    """The parameters of the sources among records: those of the cells that run a source as it is."""

    def __init__(self, records: Mapping[str, Measured]) -> None:
        self._records = records
        self._of: dict[tuple[str, str], int] = {}
        for _, record in sorted(records.items()):
            cell = record.cell
            if _is_source(cell) and (number := _counted(record)) is not None:
                self._of.setdefault((cell.task.model, cell.source), number)

    def of(self, record: Measured) -> int | None:
        """The parameters of the model that a cell's file was made of; None where no record tells them."""
        number = self._of.get((record.cell.task.model, record.cell.source))
        if number is not None or record.quality is None:
            return number
        if isinstance(record.quality.reference_params, int):
            return record.quality.reference_params
        reference = self._records.get(record.quality.reference or "")
        return _counted(reference) if reference is not None else None

    def add(self, row: Row, record: Measured) -> None:
        """Write into a row how many parameters it has, where they were counted, and why they are more or fewer."""
        number, source = _counted(record), self.of(record)
        if number is None:
            if source is not None and record.failure is None and not _is_without(record):
                row.num_params, row.num_params_from = source, SOURCE
            return
        is_of_source = _is_made_of_source(record)
        row.num_params, row.num_params_from = number, SOURCE if is_of_source else FILE
        row.num_params_note = None if is_of_source or source is None else _note(record, number, source)


def _counted(record: Measured) -> int | None:
    """The parameters that the record of a cell tells."""
    artifact, quality = record.artifact, record.quality
    if artifact is not None and artifact.num_params is not None:
        return None if _is_without(record) else artifact.num_params
    if quality is None:
        return None
    is_earlier = quality.repeated is msgspec.UNSET
    if is_earlier and artifact is not None and artifact.format == _OPENVINO:
        return None  # it left out the bodies of loops
    return quality.num_params or (None if is_earlier else quality.num_params)


def _is_without(record: Measured) -> bool:
    """Whether the numbers of a file are no tensors, but attributes of operators: those of trees, for example."""
    artifact = record.artifact
    return (
        artifact is not None
        and not artifact.num_params
        and any(name.startswith(f"{ML}.") for name in artifact.operators or {})
    )


def _is_source(cell: Cell) -> bool:
    """Whether a cell runs its source as it is."""
    return str(cell.exporter) == _NATIVE and not cell.chain


def _is_made_of_source(record: Measured) -> bool:
    artifact = record.artifact
    if artifact is None or artifact.num_params is not None or _is_source(record.cell):
        return False
    return artifact.format in _MADE_OF


def _note(record: Measured, number: int, source: int) -> str | None:
    """Why a file has more or fewer parameters than its source; None where it has as many, but for what is folded."""
    difference = number - source
    if abs(difference) <= _FOLDED * source:
        return None
    if difference < 0:
        return (
            f"{-difference:,} parameters fewer than the source's {source:,}: "
            "an exporter leaves out what no output needs, and folds what it can"
        )
    return f"{difference:,} parameters more than the source's {source:,}: {_why(record)}"


def _why(record: Measured) -> str:
    artifact, quality = record.artifact, record.quality
    if artifact is not None and artifact.repeated:
        return artifact.repeated
    if quality is not None and isinstance(quality.repeated, str):
        return quality.repeated
    if artifact is not None and any(name.startswith(f"{NCHWC}.") for name in artifact.operators or {}):
        return "weights are filled up to whole blocks of channels"
    if quality is None or quality.repeated is msgspec.UNSET:
        return "an earlier version did not record why"
    return "no array is stored twice as it is"
