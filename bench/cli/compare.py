"""`bench compare`: what changed between two folders of results, two cells, or two git revisions of a model."""

from __future__ import annotations

import contextlib
import enum
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.api.errors import InputError
from bench.cli import units

if TYPE_CHECKING:
    from bench.decisions.compare import Compared
    from bench.measure.rounds import Goal
    from bench.tasks.adopt import Options

WORSE = 1
"""Exit code with `--strict` when a cell is slower, newly failed or newly broken."""
BUDGET = "5m"
"""Time for measuring two revisions, unless something else is said."""
SAME = "the same at both revisions: nothing was measured"


class Format(enum.StrEnum):
    """Formats of `bench compare`."""

    table = "table"
    md = "md"
    json = "json"


def compare(
    before: Annotated[
        str, typer.Argument(help="A folder of results, a cell, or with --model a git revision.", metavar="A")
    ],
    after: Annotated[str, typer.Argument(help="Another one, to hold against it.", metavar="B")],
    globs: Annotated[
        list[str] | None, typer.Argument(help="Cells to look at, as globs; all by default.", show_default=False)
    ] = None,
    *,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.table,
    margin: Annotated[str, typer.Option(help="What counts as noise.")] = "2%",
    results: Annotated[Path, typer.Option("--results", help="Folder of the results, of two cells.")] = Path("results"),
    force: Annotated[bool, typer.Option("--force", help="Compare different machines.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 when a cell is slower, newly failed or newly broken.")
    ] = False,
    model: Annotated[
        Path | None, typer.Option(help="A model of your own in a git work tree, to measure at both revisions.")
    ] = None,
    dataset: Annotated[Path | None, typer.Option(help="Its samples, as for `bench run`.")] = None,
    dim: Annotated[list[str] | None, typer.Option(help="Size of a dimension it leaves open, as height=224.")] = None,
    shape: Annotated[list[str] | None, typer.Option(help="Shape of an input of it, as image=1x3x224x224.")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Let code that the model's file holds run.")] = False,
    budget: Annotated[str, typer.Option(help="Time for measuring two revisions.")] = BUDGET,
    launches: Annotated[int, typer.Option(min=2, help="Most launches of a cell of a revision.")] = 6,
) -> None:
    """What changed from A to B: each cell's ratio with its interval, and verdicts corrected for how many there are.

    Two revisions of a model are measured now, side by side; results and cells were measured before.
    """
    from bench.measure.rounds import Goal
    from bench.report import compare as compared_table
    from bench.tasks import adopt

    said = adopt.Options(dataset=dataset, dims=tuple(dim or ()), shapes=tuple(shape or ()), trust=trust)
    share = units.share(margin)
    if model is not None:
        few = min(Goal.min_launches, launches)
        goal = Goal(margin=share, min_launches=few, max_launches=launches, budget_s=units.seconds(budget))
        found = _revisions(before, after, model, said, globs or [], goal)
    elif said != adopt.Options():
        raise InputError("--dataset, --dim, --shape and --trust are about a model of your own; name it with --model")
    else:
        found = _stored(before, after, globs or [], results, share, force)
    typer.echo(compared_table.render(found, format=format.value), nl=False)
    if strict and found.has_worse:
        raise typer.Exit(WORSE)


def _stored(before: str, after: str, globs: list[str], results: Path, margin: float, force: bool) -> Compared:
    from bench.decisions import compare as compared

    if not Path(before).is_dir() and not Path(after).is_dir() and _is_cell(before) and _is_cell(after):
        if globs:
            raise InputError("two cells are compared as they are; leave the globs out")
        return compared.cells(results, before, after, margin=margin)
    for name in (before, after):
        if not Path(name).is_dir():
            raise InputError(
                f"{name} is no folder; A and B are two folders of results, two cells, or two git revisions of what "
                "--model names"
            )
    return compared.folders(Path(before), Path(after), globs, margin=margin, force=force)


def _is_cell(text: str) -> bool:
    from bench.api.cell import Cell

    with contextlib.suppress(InputError):
        Cell.from_path(text)
        return True
    return False


def _revisions(before: str, after: str, model: Path, said: Options, globs: list[str], goal: Goal) -> Compared:
    """Both revisions measured, unless they are the same."""
    from rich.console import Console

    from bench.cli import progress
    from bench.decisions import side_by_side
    from bench.decisions.compare import PAIRED, Compared, Side, judged
    from bench.graphs.file.text import printable
    from bench.measure import machine
    from bench.measure.block import Method
    from bench.measure.limits import Limits
    from bench.tasks import adopt, revisions

    found = [revisions.find(name, model) for name in (before, after)]
    if found[0].content == found[1].content:
        sides = [Side(name=str(revision), machine=machine.name(), num_cells=0) for revision in found]
        return Compared(before=sides[0], after=sides[1], how=PAIRED, changes=(), remarks=(SAME,))
    adopted = [adopt.adopt(revisions.extract(revision), said) for revision in found]
    for note in dict.fromkeys(note for one in adopted for note in one.notes):
        print(f"bench: {printable(note)}", file=sys.stderr)
    names = [one.name for one in adopted]
    cells = side_by_side.pairs(names[0], names[1], globs)
    method = Method(limits=Limits.of(step_s=None, memory_bytes=None))
    changes = side_by_side.measure(cells, method, goal, progress.Watch(Console(stderr=True)))
    sides = [
        Side(name=str(revision), machine=machine.name(), num_cells=sum(pair[index] is not None for pair in cells))
        for index, revision in enumerate(found)
    ]
    remark = side_by_side.differing_inputs(names[0], names[1])
    return Compared(
        before=sides[0],
        after=sides[1],
        how=PAIRED,
        changes=judged(changes, margin=goal.margin),
        remarks=(remark,) if remark else (),
    )
