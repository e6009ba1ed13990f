"""Comparison of two git revisions of a model, both measured now in the same blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bench.features.compare import git_revisions, side_by_side
from bench.features.compare.changes import PAIRED, Change, Compared, Side, judged
from bench.measure import machine
from bench.measure.block import Method
from bench.measure.goal import Goal
from bench.measure.limits import Limits
from bench.pipeline.sweep_options import Observer
from bench.records import machines
from bench.tasks import adopt

SAME = "the same at both revisions: nothing was measured"


def compare(
    names: tuple[str, str],
    model: Path,
    options: adopt.Options,
    globs: Sequence[str],
    goal: Goal,
    observer: Observer,
    *,
    say: Callable[[Iterable[str]], None],
) -> Compared:
    """Measure a model at two revisions, unless it is the same at both.

    Args:
        names: names of the two revisions, in a form that git takes.
        model: path in a git work tree.
        options: the options that describe the model, besides its path.
        globs: globs over cell paths without the task; the plain exports without any glob.
        goal: when a cell has been measured enough; its margin is the largest difference that counts as noise.
        observer: told of every step.
        say: called with the notes on both revisions before the measurement.

    Raises:
        InputError: there is no such revision or model, it cannot be measured, or a glob matches no cell.
    """
    commits = [git_revisions.find(name, model) for name in names]
    cells: side_by_side.Pairs = ()
    changes: Sequence[Change] = ()
    remark: str | None = SAME
    if commits[0].content != commits[1].content:
        adopted = [adopt.adopt(git_revisions.extract(revision), options) for revision in commits]
        say(note for task in adopted for note in task.notes)
        before, after = (task.name for task in adopted)
        cells = side_by_side.pairs(before, after, globs)
        method = Method(limits=Limits.of(step_s=None, memory_bytes=None))
        changes = side_by_side.measure(cells, method, goal, observer)
        remark = side_by_side.differing_inputs(before, after)
    sides = [
        Side(
            name=str(revision),
            machine=machine.name(),
            num_cells=sum(pair[index] is not None for pair in cells),
            measured=machines.headline_today(),
        )
        for index, revision in enumerate(commits)
    ]
    return Compared(
        before=sides[0],
        after=sides[1],
        how=PAIRED,
        changes=judged(changes, margin=goal.aims.margin),
        remarks=(remark,) if remark else (),
    )
