"""What `bench run` prints: tables, and the last lines that say what to do next."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.api import features
from bench.api.cell import Cell
from bench.api.names import Role
from bench.cli import options, waiting
from bench.cli.show import print_table
from bench.decisions import threads as thread_decisions
from bench.decisions.answer import of_run
from bench.decisions.sizes import families
from bench.pipeline import replacements, waves
from bench.pipeline.sweep import Sweep
from bench.pipeline.sweep_options import Options
from bench.records import folder, noise
from bench.records.folder import Results
from bench.records.reading import note_of
from bench.records.rows import Row
from bench.records.store import Store
from bench.records.warnings import warnings
from bench.report import machine_effects, next_step, threads, writing
from bench.report import sizes as by_size


@dataclasses.dataclass(frozen=True)
class Output:
    """Prints what is stored of a run's cells.

    Attributes:
        cells: the cells.
        sizes: of a model of one's own, the task's sizes by dimension.
        folder: folder of the results.
        settings: those of the sweep.
        with_baselines: whether the baselines are shown, too, which nobody named: those of other versions.
    """

    cells: Sequence[Cell]
    sizes: Mapping[str, int]
    folder: Path
    settings: Options
    with_baselines: bool

    def rows(self, store: Store) -> list[Row]:
        """The rows of the cells, by the results of their tasks alone."""
        tasks = {str(cell.task) for cell in self.cells}
        return folder.stored(store, margin=self.settings.goal.aims.margin, tasks=tasks).of(self.cells)

    def show(self, store: Store, ran: Sweep, *, strict: bool) -> bool:
        """Print the tables; returns whether the run measured what was asked for.

        All results of the machine are read, as `bench pick` does: what a run advises is what that command accepts.

        Args:
            store: the results of a kind of machine.
            ran: the sweep that stored there.
            strict: whether a row that failed, or whose outputs are broken, is not what was asked for.
        """
        with waiting.reporting("reading all results of this machine", options.say):
            stored = folder.stored(store, margin=self.settings.goal.aims.margin)
        options.say_notes(filter(None, [note_of(stored.damages)]))
        shown = stored.of([ran.exports.replaced.get(cell, cell) for cell in self.cells])
        if self.with_baselines:
            shown = [*stored.of(stored.baselines_of(shown)), *shown]
        late = [*replacements.lines(ran.exports.replaced), *untimed(ran.left_out, shown, len(self.cells))]
        is_measured = (
            print_threads(stored, shown, self.sizes, late)
            if self.settings.across_threads
            else self._print(stored, shown, late)
        )
        return is_measured and not (strict and any(row.status == "failed" or row.fidelity == "broken" for row in shown))

    def show_standing(self, store: Store) -> None:
        """Print the table of the cells that were timed before a run was stopped, and how many are not in it."""
        shown = self.rows(store)
        timed = [row for row in shown if row.num_launches or row.same_as]
        if not timed:
            return
        print_table(timed)
        options.say_notes(not_in_table(shown, len(self.cells)))

    def _print(self, stored: Results, shown: Sequence[Row], late: Sequence[str]) -> bool:
        """Print the tables of a run, its notes and its last lines; returns whether a cell was measured."""
        print_table(shown)
        options.write(writing.paragraph([noise.said(stored.measurements, shown)], "table"), None)
        others = [row for row in shown if row.task_name.role is not Role.GENERATION]
        options.write(by_size.render(families(stored.measurements, others), format="table"), None)
        for module in features.modules("run_tables"):
            options.write(module.below_rows(stored, shown), None)
        options.write(machine_effects.render(stored.measurements.machine_effects), None)
        options.say_notes([*warnings(shown), *late])
        answers = [of_run(stored, task) for task in dict.fromkeys(row.task for row in shown)]
        advice = next_step.after(shown, sizes=self.sizes, results=self.folder, answers=answers, goal=self.settings.goal)
        options.say(*(options.again(line, sys.argv[1:]) for line in advice))
        return next_step.is_measured(shown) or next_step.is_without_times(shown)


def not_in_table(shown: Sequence[Row], total: int) -> list[str]:
    """A line about the cells that are not in the table of a run that was stopped; empty where all are.

    Args:
        shown: the rows of all cells that the run began.
        total: the number of its cells.
    """
    timed = {row.cell for row in shown if row.num_launches or row.same_as}
    ended = {row.cell for row in shown if row.status != "ok" or row.fidelity == "broken"} - timed
    imitated = {row.cell for row in shown if row.untimed is not None} - timed - ended
    counts = {
        "not timed yet": total - len(timed | ended | imitated),
        "not timed, for their times say nothing": len(imitated),
        "failed, broken or skipped": len(ended),
    }
    missing = [f"{number} {why}" for why, number in counts.items() if number]
    return [f"of {total} cells, these are not in the table: {', '.join(missing)}"] if missing else []


def untimed(left_out: Sequence[Cell], shown: Sequence[Row], total: int) -> list[str]:
    """What to say of cells for which there was no time, and which no earlier run timed."""
    timed = {row.cell for row in shown if row.num_launches or row.same_as}
    missing = [cell for cell in left_out if cell.path not in timed]
    num_compiling = sum(map(waves.compiles, missing))
    gains = "no time was left, and by earlier or published results none of them is likely to be the fastest"
    reasons = {
        f"{gains}; a longer --total adds them": len(missing) - num_compiling,
        "each compiles for half a minute, and no time was left; a longer --total adds them": num_compiling,
    }
    return [f"{number} of {total} cells are not in the table: {why}" for why, number in reasons.items() if number]


def print_threads(stored: Results, shown: Sequence[Row], sizes: Mapping[str, int], late: Sequence[str] = ()) -> bool:
    """Print the table of numbers of threads, or why there is none, and what to do next.

    Returns:
        Whether a cell was timed at some number of threads, or no cell has several to compare.
    """
    records = thread_decisions.sound(stored, shown)
    has_launches = any(row.cell in records and records[row.cell].thread_launches for row in shown)
    if scaled := thread_decisions.scalings(records, margin=stored.margin):
        own = [row for row in stored.rows if row.cell in records]
        options.write(threads.render(scaled, own, format="table"), None)
    else:
        print_table(shown)
    options.say_notes(late)
    if scaled:
        options.say(*next_step.of_threads(scaled))
    else:
        options.say(next_step.unscaled(shown, sizes, has_launches=has_launches))
    is_complete = next_step.is_at_one_thread(shown) or next_step.is_without_times(shown)
    return bool(scaled) or has_launches or is_complete
