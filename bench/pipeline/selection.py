"""The cells that globs and the name of a sweep choose, and which of them can be measured with what is here."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import functools
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from bench.api import errors, loading
from bench.api.cell import Cell, matching
from bench.api.errors import BenchError, InputError
from bench.api.names import Role, TaskName
from bench.pipeline import environments, isolated, sizing, sweeps
from bench.plugins import catalog

_SIGNS = frozenset("*?[")
"""What makes a glob of a path."""


def select(
    globs: Sequence[str],
    sweep: str | None,
    *,
    axes: Mapping[str, Sequence[int]] | None = None,
    say: Callable[[str], object] | None = None,
    with_absent: bool = False,
) -> list[Cell]:
    """Cells of a sweep that a glob matches; with globs and no sweep, of everything there is; `full` by default.

    A glob that is a whole cell path names that cell, with whatever chain, batch and threads it says. Of other globs,
    and of a sweep, there are the cells that `here` returns.

    Args:
        globs: the globs.
        sweep: the name of the sweep, or None.
        axes: sizes by dimension, see `sizing.at_sizes`.
        say: called with a line that names the plugins whose cells are left out, if there are any and nothing is
            refused.
        with_absent: whether nothing is left out, for cells that may run in another environment.

    Raises:
        InputError: no such sweep, a glob that matches nothing, nothing that can be measured with what is here, or as
            `sizing.at_sizes`.
    """
    if sweep is not None and sweep not in sweeps.named():
        raise InputError(f"no sweep named {sweep!r}; {errors.suggest(sweep, sweeps.named())}")
    of_sweep = sweep is not None or not globs
    named = sweep or (sweeps.everything if globs else sweeps.full).__name__
    pool = functools.cache(sweeps.named()[named])  # not built for globs that are paths of cells
    left_out: dict[str, None] = {}

    def usable(cells: Sequence[Cell], *of: str) -> Sequence[Cell]:
        if with_absent:
            return cells
        cells, absent = _here(cells, of, of_sweep)
        left_out.update(absent)
        return cells

    chosen: dict[Cell, None] = {} if globs else dict.fromkeys(usable(pool()))
    for glob_at_sizes in globs:
        glob, request = _apart(glob_at_sizes)
        is_path = glob.count("/") == 6 and _SIGNS.isdisjoint(glob)
        cells = [_checked(Cell.from_path(glob))] if is_path else usable(_of_glob(glob, pool(), of_sweep), glob)
        for cell in cells:
            role, sizes = request.role or cell.task.role, request.sizes or cell.task.sizes
            chosen[dataclasses.replace(cell, task=TaskName(cell.task.model, role, sizes))] = None
    for name in {cell.task for cell in chosen} if globs else ():
        catalog.task(name)  # refuses sizes that the task does not have
    sized = sizing.at_sizes(chosen, axes or {})
    if say is not None and left_out:
        say(_line(left_out))
    return sized


def here(
    cells: Sequence[Cell], globs: Sequence[str] = (), *, of_sweep: bool = True, say: Callable[[str], object]
) -> list[Cell]:
    """The cells without those of plugins that are not here, but for plugins that a glob names.

    Args:
        cells: the cells.
        globs: the globs that they match.
        of_sweep: whether they are of a sweep, which has no cells of a program that is not here; otherwise those are
            skipped, and only plugins whose environment would have to be made first are left out.
        say: called with a line that names the plugins of what is left out, if there are any.

    Raises:
        InputError: none is left.
    """
    usable, left_out = _here(cells, globs, of_sweep)
    if left_out:
        say(_line(left_out))
    return usable


def _here(cells: Sequence[Cell], globs: Sequence[str], of_sweep: bool) -> tuple[list[Cell], dict[str, None]]:
    """The cells as `here` returns them, and of each plugin that is not here what brings it."""
    ways = isolated.absent()
    may_lack = ways.keys() if of_sweep else isolated.unmade()
    lacking = {part for part in may_lack if part[1] not in _plugins_in(globs)}
    usable = isolated.without(cells, lacking)
    needed = sorted(lacking & {part for cell in cells for part in isolated.plugins_of(cell)})
    left_out = dict.fromkeys(f"{part[1]}: {ways[part]}" for part in needed)
    if needed and not usable:
        what = f"the cells of {', '.join(map(repr, globs))} need" if globs else "these cells need"
        raise InputError(f"{what} what is not here", fix="; ".join(left_out))
    return usable, left_out


def _line(left_out: Iterable[str]) -> str:
    return f"Left out: {'; '.join(left_out)}"


def _plugins_in(globs: Sequence[str]) -> set[str]:
    """The parts of globs that may be names of plugins, and the files of variants that are named with an option."""
    parts = {part for glob in globs for part in re.split(r"[/+]", glob) if _SIGNS.isdisjoint(part)}
    for part in list(parts):
        with contextlib.suppress(BenchError):
            parts.add(catalog.variant(part).variant.name)
    return parts


def _of_glob(glob: str, pool: Sequence[Cell], of_sweep: bool) -> list[Cell]:
    """The cells that a glob matches.

    Args:
        glob: the glob.
        pool: the cells to choose from.
        of_sweep: whether these are a sweep that was asked for, whose own runtimes need not be named.

    Raises:
        InputError: there is none.
    """
    cells = matching(pool, glob)
    if not cells:
        raise InputError(f"no cell matches {glob!r}; {_nearest(glob, pool)}")
    return cells if of_sweep else _of_no_sweep_but_named(cells, glob)


def _of_no_sweep_but_named(cells: Sequence[Cell], glob: str) -> list[Cell]:
    """The cells without those of runtimes that only a sweep of their own measures, but for runtimes that a glob names.

    Raises:
        InputError: no cell is left.
    """
    parts = [part for part in (*glob.split("/"), *re.split(r"[/*?]", glob)) if part.strip("*?")]

    def is_named(cell: Cell) -> bool:
        return any(fnmatch.fnmatchcase(str(cell.runtime), part) for part in parts)

    chosen = [cell for cell in cells if not catalog.runtime(cell.runtime).own_sweep or is_named(cell)]
    if not chosen:
        names = sorted({str(cell.runtime) for cell in cells})
        raise InputError(f"{glob!r} matches cells of {', '.join(names)} alone, which a glob has to name")
    return chosen


def _apart(glob: str) -> tuple[str, TaskName]:
    """A glob over cells of tasks as they are, and the request that it asks for: a role, sizes, or neither."""
    task, slash, rest = glob.partition("/")
    request = TaskName.parse(task)
    own = TaskName(request.model, request.role if request.role is Role.GENERATION else Role.INFERENCE)
    return f"{own}{slash}{rest}", request


def _checked(cell: Cell) -> Cell:
    """Check that all parts of a cell exist and fit together.

    Raises:
        InputError: a part does not exist, or does not fit another part.
    """
    task, exporter, runtime = catalog.task(cell.task), catalog.exporter(cell.exporter), catalog.runtime(cell.runtime)
    for name in cell.chain:
        catalog.variant(name)
    if cell.source not in task.sources:
        raise InputError(f"{cell.task} has no source {cell.source!r}; {errors.suggest(cell.source, task.sources)}")
    if exporter.sources and cell.source not in exporter.sources:
        raise InputError(f"{cell.exporter} exports {' and '.join(exporter.sources)}, not {cell.source}")
    if exporter.format(cell.source) not in runtime.formats:
        raise InputError(f"{cell.runtime} opens {', '.join(runtime.formats)}, not {exporter.format(cell.source)}")
    runtime.check_provider(str(cell.provider))
    environments.check_known(cell)
    return cell


def _nearest(glob: str, pool: Sequence[Cell]) -> str:
    """A suggestion for the first part of a glob that no cell has; a path of a model is no glob."""
    if Path(glob).exists():
        return f"to measure the model in {glob}: `bench run --model {shlex.quote(glob)}`"
    for part in glob.split("/"):
        names = {name for cell in pool for name in cell.path.split("/")[:-1]}
        if part and not any(sign in part for sign in "*?[") and part not in names:
            known = part in loading.in_repository("models")
            return f"it is {loading.IN_REPOSITORY}" if known else errors.suggest(part, sorted(names))
    return _unopened(glob, pool) or "see `bench run --dry-run` for what there is"


def _unopened(glob: str, pool: Sequence[Cell]) -> str:
    """Why a runtime that a glob names opens no artifact of its task; empty where it opens some, or none is known."""
    task, _, rest = glob.partition("/")
    cells = matching(pool, f"{task}/*")
    lacking = loading.find("runtimes").keys() - {str(cell.runtime) for cell in cells}
    for name in [part for part in rest.split("/") if part in lacking]:
        formats = catalog.runtime(name).formats
        makers = [
            f"{exporter.name} of {source}"
            for exporter in map(catalog.exporter, loading.find("exporters"))
            for source in exporter.sources
            if exporter.format(source) in formats
        ]
        sources = " and ".join(sorted({cell.source for cell in cells}))
        if makers and sources:
            return f"{name} opens what is made by {', '.join(makers)}; {task} is of {sources}"
    return ""
