"""The order in which a sweep measures its cells: in waves, each of which goes through all stages."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Sequence

from bench.api.cell import Cell
from bench.measure import machine
from bench.pipeline import sweeps
from bench.plugins import catalog

_SMALL = 60
"""Cells that are measured in any order: a model has about as many in the sweep `full`."""
_COMPILING_S = 40.0
"""Time of a core for a cell that compiles, of which half a minute is the compiler's."""
_LITTLE_GAIN = 0.95
"""Expected latency over that of the fastest plain export, above which a cell is expected to gain little."""
_FAR = 1.5
"""The same of a plain export, above which it is expected to be no candidate: processors rarely differ by as much."""


@dataclasses.dataclass(frozen=True)
class Wave:
    """Cells that go through all stages of a sweep together.

    Attributes:
        needed: baselines, and cells that may be the fastest, as far as is known.
        spare: cells that are expected to gain little over a plain export, and plain exports that are expected to be far
            slower than another: where the time of a sweep does not suffice for all, the last of these are left out.
            First comes a cell of each runtime that has none among all that are needed, which by the surest source runs;
            then of each that has none among the needed of a request: a table is about every engine, however slow, and
            one cell of each engine is needed, but for modes of others and for engines of one thread. Of these and of
            the others, the fastest come first. All come before what compiles for long: each such cell takes the time of
            several.
    """

    needed: Sequence[Cell]
    spare: Sequence[Cell] = ()

    def __len__(self) -> int:
        return len(self.needed) + len(self.spare)


def in_waves(
    cells: Iterable[Cell], *sources: Callable[[str], float], baselines: Collection[Cell | None] = ()
) -> list[Wave]:
    """Cells in the order in which a sweep measures them: those that a first table is about, most others, and the slow.

    The first are each framework's own format and its first plain export to each other format, on their usual runtimes
    at the fewest threads; of a few cells there is a table soon in any order. The slow compile models for long.

    Args:
        cells: all cells of a sweep.
        sources: what is expected, the surest first: the ratio of a cell by its path, or 0 where nothing is known.
            Ratios of two sources are not compared.
        baselines: the cells with which others are compared, which are never spare.
    """
    cells = list(cells)
    is_small = len(cells) <= _SMALL
    fewest = min((cell.threads for cell in cells), default=1)
    plain = [cell for cell in cells if cell.threads == fewest and _is_plain(cell)]
    ranked = sorted(plain, key=sweeps.is_open, reverse=True)
    first = {(cell.task, cell.batch, cell.source, catalog.format_of(cell)): cell.exporter for cell in reversed(ranked)}

    def is_first(cell: Cell) -> bool:
        return cell in plain and first[cell.task, cell.batch, cell.source, catalog.format_of(cell)] == cell.exporter

    def wave(cell: Cell) -> int:
        return 2 if compiles(cell) else int(is_small or not is_first(cell))

    groups = [[cell for cell in cells if wave(cell) == number] for number in range(3)]
    beside: dict[Cell, float] = {}
    source_of: dict[Cell, int] = {}
    for number, source in [] if is_small else reversed([*enumerate(sources)]):
        of_source = _beside_plain(cells, source)
        beside |= of_source
        source_of |= dict.fromkeys(of_source, number)
    slow = {cell for cell, share in beside.items() if share > (_FAR if _is_plain(cell) else _LITTLE_GAIN)}
    spare = sorted((cell for cell in groups[1] if cell in slow and cell not in baselines), key=beside.__getitem__)
    ordered = [Wave([cell for cell in group if cell not in spare]) for group in groups]
    needed = [cell for wave in ordered for cell in wave.needed]
    in_request = _firsts(spare, needed, lambda cell: (cell.group, cell.runtime))
    anywhere = _firsts(sorted(in_request, key=source_of.__getitem__), needed, lambda cell: cell.runtime)
    engines = sweeps.other_engines() if anywhere else ()
    shown = [cell for cell in anywhere if cell.runtime in engines]
    others = dict.fromkeys([*anywhere, *in_request, *spare])
    ordered[1] = Wave([*ordered[1].needed, *shown], tuple(cell for cell in others if cell not in shown))
    return [each for each in ordered if len(each)]


def _firsts(cells: Iterable[Cell], others: Iterable[Cell], key: Callable[[Cell], object]) -> list[Cell]:
    """The first cell of each key that none of some other cells has."""
    seen = {key(cell) for cell in others}
    firsts: dict[object, Cell] = {}
    for cell in cells:
        if (of := key(cell)) not in seen:
            firsts.setdefault(of, cell)
    return [*firsts.values()]


def _beside_plain(cells: Sequence[Cell], ratio: Callable[[str], float]) -> dict[Cell, float]:
    """The expected latency of cells over that of the fastest plain export on a usual runtime, of the same request.

    Cells of which nothing is known are left out.
    """
    ratios = {cell: value for cell in cells if (value := ratio(cell.path)) > 0}
    fastest: dict[tuple[str, int, int], float] = {}
    for cell in filter(_is_plain, ratios):
        fastest[cell.group] = min(ratios[cell], fastest.get(cell.group, math.inf))
    return {cell: value / fastest[cell.group] for cell, value in ratios.items() if cell.group in fastest}


def _is_plain(cell: Cell) -> bool:
    """Whether a cell is a plain export, which keeps the model's numbers, on the usual runtime of its format."""
    return not cell.chain and sweeps.is_usual(cell) and not catalog.exporter(cell.exporter).lossy


def compiling_s(cells: Iterable[Cell]) -> float:
    """The time that all cores together need, roughly, for the compilations of cells that compile for long."""
    return _COMPILING_S * sum(map(compiles, cells)) / machine.num_cores()


def compiles(cell: Cell) -> bool:
    """Whether a cell compiles its model for long."""
    return catalog.exporter(cell.exporter).compiles or catalog.runtime(cell.runtime).compiles
