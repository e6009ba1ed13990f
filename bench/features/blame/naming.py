"""The two sides that names on a command line stand for: cells, files of models, versions of packages."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from bench.api import loading
from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.api.names import TaskName
from bench.decisions import check
from bench.features.blame import sides
from bench.features.blame.sides import Pair, Side
from bench.measure.limits import Limits
from bench.pipeline import environments
from bench.pipeline import versions as other_versions
from bench.pipeline.environment_request import Asked
from bench.tasks import adopt
from bench.tasks.adopt import Options


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """What a command says besides the names.

    Attributes:
        description: the options that describe files of models.
        runtime, provider: what runs files; None for the usual ones.
        limits: time and memory of the child processes.
        may_be_large: whether downloads of gigabytes are allowed.
    """

    description: Options
    runtime: str | None
    provider: str | None
    limits: Limits
    may_be_large: bool


def two(before: str, after: str, setting: Setting) -> Pair:
    """Two cells, or two files of models.

    Raises:
        InputError: they are neither, or no pair.
        ArtifactError: an artifact cannot be made, or does not run.
    """
    files = [Path(name).exists() for name in (before, after)]
    if not any(files):
        _refuse_file_options(setting)
        return sides.of_cells(_cell(before), _cell(after), setting.limits)
    if not all(files):
        raise InputError(
            f"{before if files[0] else after} is a file, and there is no file {after if files[0] else before}; "
            "name two files or two cells"
        )
    pair = check.pair_of_files(
        Path(before),
        Path(after),
        options=setting.description,
        runtime=setting.runtime,
        provider=setting.provider,
        may_be_large=setting.may_be_large,
        limits=setting.limits,
    )
    first, second = (
        Side(name=name, cell=value.cell, artifact=value.artifact)
        for name, value in zip((before, after), (pair.pinned, pair.new), strict=True)
    )
    return Pair(before=first, after=second, samples=second.cell, notes=pair.notes)


def versions(name: str, wanted: Sequence[Asked], setting: Setting) -> Pair:
    """One cell, or the plain cell of a file, with two versions of a package: one alone is B, and A is what is here.

    Raises:
        InputError: the versions do not concern the cell.
        ArtifactError: an environment or an artifact cannot be made.
    """
    if Path(name).exists():
        adopted = adopt.adopt(Path(name), setting.description, limits=setting.limits)
        cell, notes = check.cell_of(adopted.name, setting.runtime, setting.provider, 1, 1), adopted.notes
    else:
        _refuse_file_options(setting)
        cell, notes = _cell(name), ()
    cells, names = [cell] * (len(wanted) == 1), [_here(wanted[0])] * (len(wanted) == 1)
    for request in wanted:
        other = other_versions.changed(cell, request, setting.may_be_large)
        if other is None:
            raise other_versions.unconcerned(request, [cell])
        cells.append(other)
        names.append(request.text)
    pair = sides.of_cells(cells[0], cells[1], setting.limits, names)
    return dataclasses.replace(pair, notes=notes)


def _here(other: Asked) -> str:
    """What this process's environment has of what another environment has otherwise."""
    own = environments.own()
    if other.python:
        return f"Python {own.python} of this command"
    return ", ".join(f"{name}=={own.packages.get(name, 'not installed')}" for name in other.requirements)


def _cell(path: str) -> Cell:
    """The cell of a path; a model of one's own that was measured before is recalled.

    Raises:
        InputError: the text is no path of a cell.
    """
    name = TaskName.parse(path.partition("/")[0]).model
    if name not in loading.find("models"):
        adopt.recall(name)
    return Cell.from_path(path)


def _refuse_file_options(setting: Setting) -> None:
    """Refuse options that describe files where cells are named.

    Raises:
        InputError: there are some.
    """
    if setting.description != Options() or setting.runtime or setting.provider:
        raise InputError(
            "--dataset, --dim, --shape, --trust, --runtime and --provider are about files, and a cell has its own"
        )
