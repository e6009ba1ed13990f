"""Cells of other versions of packages: for each option `--with` or `--python`, the cells whose plugins it concerns."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

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
            raise unconcerned(request)
        changed_cells |= dict.fromkeys(others)
    return list(changed_cells)


def unconcerned(request: Asked) -> InputError:
    """The error of an environment that concerns none of the cells."""
    packages = ", ".join(request.requirements)
    return InputError(f"none of these cells runs or is made with {packages}; `bench doctor` lists the packages")


def changed(cell: Cell, request: Asked, may_be_large: bool = False) -> Cell | None:
    """The cell with the name of the environment in its path; None where the environment does not concern it."""
    of = environments.own().distributions
    runtime = catalog.runtime(cell.runtime)
    packages = runtime.packages(str(cell.provider))
    if request.concerns(of(packages)):
        needed = (*packages, *(_READS_ONNX if "onnx" in runtime.formats else ()))
        if str(cell.exporter) == _NATIVE:  # the worker may build the model by the task's code
            needed = (*needed, *catalog.task(cell.task).packages)
        name = environments.declare("runtimes", cell.runtime, needed, request, may_be_large=may_be_large)
        return dataclasses.replace(cell, runtime=name)
    exporter, steps = cell.exporter, []
    plugin, samples = catalog.exporter(exporter), catalog.task(cell.task).packages  # what reads the model and the data
    if request.concerns(of(plugin.requires)):
        needed = (*plugin.requires, *samples)
        exporter = environments.declare("exporters", exporter, needed, request, may_be_large=may_be_large)
    for step in cell.chain:
        variant = catalog.variant(step).variant
        # By its first package alone: many check what they wrote with ONNX Runtime, which is not theirs.
        if request.concerns(of(variant.requires[:1])):
            needed = (*variant.requires, *samples)
            step = environments.declare("variants", step, needed, request, may_be_large=may_be_large)
        steps.append(step)
    other = dataclasses.replace(cell, exporter=exporter, chain=tuple(steps))
    return None if other == cell else other
