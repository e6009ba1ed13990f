"""A measured cell with its figures, read from the store or measured now: the source of a row."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from bench.api.artifact import Facts
from bench.api.cell import Cell
from bench.api.names import PluginName
from bench.measure.launch import Launch
from bench.records.lines import Failure, Header, Quality


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """A cell with the figures of every stage that it has passed.

    Attributes:
        cell: the cell.
        header: the cell, its artifact and all that the figures depend on.
        quality: quality of the outputs; None where the cell was not verified.
        launches: launches that ran beside the task's baseline at as many threads.
        failure: why there are no figures, or no further figures; None while no stage has failed.
    """

    cell: Cell
    header: Header
    quality: Quality | None = None
    launches: tuple[Launch, ...] = ()
    failure: Failure | None = None

    @property
    def key(self) -> str:
        """Digest of all that the figures depend on."""
        return self.header.key

    @property
    def tick_ns(self) -> int:
        """See `Quality.clock_tick_ns`; 0 where the cell was not verified."""
        return 0 if self.quality is None else self.quality.clock_tick_ns

    @property
    def artifact(self) -> Facts | None:
        """The facts about the file that the cell runs; None where no file could be made."""
        return self.header.artifact


def program_of(runtime: PluginName, versions: Iterable[str]) -> str:
    """The program that the machine's state acts on, in the model of the measurement: what a runtime runs.

    Runtimes of the same distributions are one program, whatever their versions: states act on them alike. Between
    71 blocks of crnn within six minutes on an EPYC of Zen 4, the ratios of `onnxruntime`, `onnxruntime_bytes` and
    `onnxruntime_iobinding` scattered by 1.8 to 2.6 %, whether the blocks were seconds or minutes apart: states of
    their own, if they have any, have at most about 1 %. PyTorch's to theirs scattered by 4.0 to 4.3 % within 20
    seconds and by 5.5 to 5.8 % after two to five minutes, so that states add about 3.7 % (the figures of
    `benchmarks/states.py`, of the blocks of one `bench run`).

    Args:
        runtime: the runtime.
        versions: names of the distributions that a cell runs with, and `python`.
    """
    return ", ".join(sorted({*versions} - {"python"})) or runtime.listed


def what_runs(cell: Cell, artifact: Facts | None) -> object | None:
    """A value that is equal for cells that run the same graph in the same way; None where the graph is unknown."""
    if artifact is None or not artifact.canonical:
        return None
    return (cell.group, cell.runtime, cell.provider, artifact.canonical)


def what_answers(cell: Cell, artifact: Facts | None) -> object:
    """A value that is equal for cells that run the same graph on the same runtime and provider.

    Such cells differ in batch and threads alone, so that their outputs are the same but for rounding.
    """
    single = dataclasses.replace(cell, batch=1, threads=1)
    return what_runs(single, artifact) or single


def same_as(cells: Sequence[Measured]) -> dict[str, str]:
    """Cells that need no timing of their own: from the path of each to the path of a cell that runs the same graph.

    The two run the same canonical graph with the same weights on the same runtime, provider, batch and threads. Of
    several such cells, a cell that was already timed stands for the others, or else the first.
    """
    sets: dict[object, list[Measured]] = {}
    for cell in cells:
        if (thing := what_runs(cell.cell, cell.artifact)) is not None:
            sets.setdefault(thing, []).append(cell)
    twins: dict[str, str] = {}
    for members in sets.values():
        keeper = max(members, key=lambda member: bool(member.launches))
        twins |= {other.cell.path: keeper.cell.path for other in members if not other.launches and other != keeper}
    return twins
