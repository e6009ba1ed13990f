"""Cells of other versions of packages: for each option `--with` or `--python`, the cells whose plugins it concerns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.pipeline import environments
from bench.pipeline.environment_request import Asked
from bench.plugins import catalog

_NATIVE = "native"
_READS_ONNX = ("onnx",)
"""What a runtime of ONNX files needs to tell where nodes run, and in which precision."""


def cells_with(cells: Sequence[Cell], requests: Sequence[Asked], *, may_be_large: bool = False) -> list[Cell]:
    """The cells that other environments concern, once for each environment.

    Where the environment has the packages of a cell's runtime, the runtime is what is other, and it runs the artifact
    that is made here. Only where it has not, the exporter and the variants that it concerns run in it.

    Args:
        cells: cells of this process's environment.
        requests: what is other in each of the environments.
        may_be_large: whether downloads of gigabytes are allowed.

    Raises:
        InputError: an environment concerns none of the cells.
    """
    changed_cells: dict[Cell, None] = {}
    for request in requests:
        others = [other for cell in cells if (other := changed(cell, request, may_be_large)) is not None]
        if not others:
            raise unconcerned(request, cells)
        changed_cells |= dict.fromkeys(others)
    return list(changed_cells)


def unconcerned(request: Asked, cells: Iterable[Cell]) -> InputError:
    """The error of an environment that concerns none of the cells."""
    theirs = {package for cell in cells for names in _packages_of(cell) for package in names}
    return InputError(
        f"none of these cells runs or is made with {', '.join(request.requirements)}",
        fix=f"their packages are {', '.join(sorted(theirs))}" if theirs else "they need no package",
    )


def _packages_of(cell: Cell) -> Iterator[tuple[str, ...]]:
    """The distributions of a cell's runtime, of its exporter, and of each variant those that are its own."""
    of = environments.own().distributions
    yield of(catalog.runtime(cell.runtime).packages(str(cell.provider)))
    yield of(catalog.exporter(cell.exporter).requires)
    for step in cell.chain:
        # By its first package alone: many check what they wrote with ONNX Runtime, which is not theirs.
        yield of(catalog.variant(step).variant.requires[:1])


def changed(cell: Cell, request: Asked, may_be_large: bool = False) -> Cell | None:
    """The cell with the name of the environment in its path; None where the environment does not concern it."""
    concerned = map(request.concerns, _packages_of(cell))
    runtime = catalog.runtime(cell.runtime)
    if next(concerned):
        needed = (*runtime.packages(str(cell.provider)), *(_READS_ONNX if "onnx" in runtime.formats else ()))
        if str(cell.exporter) == _NATIVE:  # the worker may build the model by the task's code
            needed = (*needed, *catalog.task(cell.task).packages)
        name = environments.declare(
            "runtimes", cell.runtime, needed, request, isolated=runtime.isolated, may_be_large=may_be_large
        )
        return dataclasses.replace(cell, runtime=name)
    exporter, steps = cell.exporter, []
    plugin, samples = catalog.exporter(exporter), catalog.task(cell.task).packages  # what reads the model and the data
    if next(concerned):
        needed = (*plugin.requires, *samples)
        exporter = environments.declare(
            "exporters", exporter, needed, request, isolated=plugin.isolated, may_be_large=may_be_large
        )
    for step in cell.chain:
        variant = catalog.variant(step).variant
        if next(concerned):
            needed = (*variant.requires, *samples)
            step = environments.declare(
                "variants", step, needed, request, isolated=variant.isolated, may_be_large=may_be_large
            )
        steps.append(step)
    other = dataclasses.replace(cell, exporter=exporter, chain=tuple(steps))
    return None if other == cell else other
