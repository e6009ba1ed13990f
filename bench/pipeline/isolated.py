"""The plugins that run in an environment of their own here, and whether their environments are made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterable, Sequence

from bench.api import Plugin, loading
from bench.api.cell import Cell
from bench.api.errors import BenchError
from bench.api.program import ProgramRuntime
from bench.pipeline import environments
from bench.plugins import catalog, declarations


def plugins() -> list[tuple[str, Plugin]]:
    """The plugins that run in an environment of their own here, each with its kind."""
    loaders: dict[str, Callable[[str], Plugin]] = {
        "exporters": catalog.exporter,
        "variants": catalog.variant_file,
        "runtimes": catalog.runtime,
    }
    apart = []
    for kind, load in loaders.items():
        for name in loading.find(kind):
            with contextlib.suppress(BenchError):  # `bench list` says why it cannot be used
                if declarations.ask(plugin := load(name), "runs_apart"):
                    apart.append((kind, plugin))
    return apart


def unmade() -> set[tuple[str, str]]:
    """Kinds and names of the plugins whose environment would have to be made first."""
    return {(kind, plugin.name) for kind, plugin in plugins() if environments.size_of_isolated(plugin) is None}


def unmade_of(cells: Iterable[Cell]) -> list[str]:
    """Names of the plugins of cells whose environment would have to be made first."""
    lacking = unmade()
    return sorted({part[1] for cell in cells for part in plugins_of(cell) if part in lacking})


def absent() -> dict[tuple[str, str], str]:
    """Kinds and names of the plugins that no package of pip brings and that are not here, each with the command.

    Those whose environment would have to be made first, and programs of another language.
    """
    lacking = {(kind, name): f"`bench install {name} --yes` makes its environment" for kind, name in unmade()}
    for name in loading.find("runtimes"):
        with contextlib.suppress(BenchError):
            runtime = catalog.runtime(name)
            if not isinstance(runtime, ProgramRuntime) or runtime.own_sweep:
                continue
            if reason := declarations.ask(runtime, "skip"):
                lacking["runtimes", name] = reason
    return lacking


def usable(cells: Iterable[Cell]) -> list[Cell]:
    """The cells without those of plugins whose environment would have to be made first."""
    return without(cells, unmade())


def without(cells: Iterable[Cell], lacking: Container[tuple[str, str]]) -> list[Cell]:
    """The cells without those of some plugins, which are given by kind and name."""
    return [cell for cell in cells if not any(part in lacking for part in plugins_of(cell))]


def plugins_of(cell: Cell) -> list[tuple[str, str]]:
    """Kind and name of each plugin of a cell, but for those that another environment runs by a label."""
    parts = environments.parts_of(cell)
    return [(kind, catalog.plugin(kind, name).name) for kind, name in parts if not name.label]


def make_for(cells: Sequence[Cell]) -> None:
    """Make the environments of plugins' own that cells need, however large their downloads are.

    What cannot be made is a reason of the cells that need it.
    """
    needed = {part for cell in cells for part in plugins_of(cell)}
    for kind, plugin in plugins():
        if (kind, plugin.name) in needed:
            with contextlib.suppress(BenchError, OSError):
                environments.make_isolated(plugin, may_be_large=True)
