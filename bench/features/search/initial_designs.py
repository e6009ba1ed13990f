"""What a search begins with: the fixed matrix of a task, and the designs that its best plain exports give."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Sequence

from bench.api import Part
from bench.api.cell import RAW, Cell, chain_of
from bench.api.errors import BenchError, InputError
from bench.api.names import ProviderName, Role
from bench.features.search.design import Design, design
from bench.features.search.proposals import FIGURES, LATENCY, SIZE
from bench.measure.limits import Limits
from bench.pipeline import isolated, prepare, sweeps
from bench.plugins import catalog
from bench.records.rows import Row

_Base = tuple[Cell, str | None]
"""A plain export on a runtime, and the name of the mixing variant that reads it; None where only options are tried."""


def matrix(task: str, batch: int, threads: int) -> list[Cell]:
    """The fixed matrix of a task for one request: the cells of the full sweep, or all plain cells of another task."""
    cells: list[Cell] = []
    with contextlib.suppress(InputError):  # without the repository there are no tasks to sweep over
        cells = [cell for cell in sweeps.full() if str(cell.task) == task and (cell.batch, cell.threads) == (1, 1)]
    cells = isolated.usable(cells or sweeps.cells_of((task,), variants=(RAW,)))
    return [dataclasses.replace(cell, batch=batch, threads=threads) for cell in cells]


def bases(task: str, batch: int, threads: int, rows: Sequence[Row], field: str = FIGURES[LATENCY]) -> list[_Base]:
    """The exports to begin with, of the tuning task, for each mixing variant and runtime, and for options alone.

    Of the exporters and the optimizers before, those that were best in the fixed matrix are taken; of several runtimes
    with the same packages, the first.

    Args:
        task: the task itself.
        batch: batch of the request.
        threads: threads of the request.
        rows: rows of the fixed matrix.
        field: the field of a row that is to be small.
    """
    figures = {row.cell: getattr(row, field) for row in rows if row.status == "ok" and getattr(row, field) is not None}
    chains = dict.fromkeys((RAW, *(row.variant for row in rows if is_lossless(row.variant))))
    cells = isolated.usable(sweeps.cells_of((task,), variants=tuple(chains), batches=(batch,), threads=(threads,)))
    cells.sort(key=lambda cell: figures.get(cell.path, math.inf))  # stable: what was not timed stays in its order
    exports: dict[tuple[str | None, tuple[str, ...], ProviderName], _Base] = {}
    for name, formats in [*((variant.name, variant.formats) for variant in catalog.mixing()), (None, None)]:
        for cell in cells:
            runtime = catalog.runtime(cell.runtime)
            key = (name, runtime.requires, cell.provider)
            is_read = runtime.options if formats is None else catalog.format_of(cell) in formats
            is_known = key in exports or (name is None and any(key[1:] == other[1:] for other in exports))
            if is_read and not is_known and prepare.skip_reason(cell) is None:
                exports[key] = (dataclasses.replace(cell, task=dataclasses.replace(cell.task, role=Role.TUNING)), name)
    return list(exports.values())


def designs(
    request: tuple[str, int, int], objective: str, limits: Limits, rows: Sequence[Row], say: Callable[[str], None]
) -> list[Design]:
    """The designs of a task: one for each mixing variant and runtime that can be used here, and for options alone.

    Args:
        request: the task itself, batch and threads.
        objective: what is to be made small.
        limits: limits of the processes that look for the parts of a model.
        rows: rows of the fixed matrix.
        say: called with a line for each export that is left out.
    """
    usable_designs = []
    for base, variant in bases(*request, rows, FIGURES[objective]):
        try:
            chosen, parts = _parts(base, variant, limits)
        except BenchError as error:
            say(f"{base.exporter} is left out: {error}")
            continue
        options = {} if objective == SIZE else catalog.runtime(base.runtime).options
        if parts or options:
            usable_designs.append(design(chosen, variant if parts else None, parts, options))
    return usable_designs


def _parts(base: Cell, variant: str | None, limits: Limits) -> tuple[Cell, Sequence[Part]]:
    """The parts of an export; of the plain one where the optimizers before leave fewer weights to choose for."""
    if variant is None:
        return base, ()
    parts = prepare.parts_of(base, variant, limits)
    if not base.chain:
        return base, parts
    plain = dataclasses.replace(base, chain=())
    others = prepare.parts_of(plain, variant, limits)
    return (base, parts) if _num_chosen(parts) >= _num_chosen(others) else (plain, others)


def _num_chosen(parts: Sequence[Part]) -> int:
    """Numbers in the weights of all parts that have a choice."""
    return sum(part.num_weights for part in parts if len(part.letters) > 1)


def is_lossless(variant: str) -> bool:
    """Whether no variant of a chain changes the answers by more than rounding."""
    return all(not catalog.variant(name).variant.lossy for name in chain_of(variant))
