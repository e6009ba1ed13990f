"""How a deployment is best served, by the last plan of its task."""

from __future__ import annotations

from collections.abc import Mapping

from bench.api.cell import Cell
from bench.decisions.pick import Choice
from bench.features.load import render, turns
from bench.features.load.lines import HIGHEST
from bench.records import ranking
from bench.records.store import Record
from bench.report import writing
from bench.report.pick import Addition


def addition(choice: Choice, records: Mapping[str, Record]) -> Addition:
    """The table of a plan, and how it serves what is shipped best; nothing without a plan.

    Args:
        choice: the choice, whose cells stand for any number of threads here.
        records: the current record of each cell path.
    """
    plan = turns.plan_of(records, choice.group.task)
    if plan is None:
        return Addition()
    service = turns.as_service(plan, Cell.from_path(choice.shipped.cell)) if choice.shipped else None
    return Addition(text=_table(choice, plan), service=service)


def _table(choice: Choice, plan: turns.Turns) -> str:
    """How the qualified cells of a plan are best served, the highest rate first; empty where none is."""
    deployments = {turns.with_any_threads(Cell.from_path(row.cell)): row for row in choice.qualified.rows}
    best = {way: row for deployment, row in deployments.items() if (way := plan.best(deployment)) is not None}
    if not best:
        return ""
    ways = [way for way in render.ordered(plan, HIGHEST) if way in best]
    lines = [(render.split(way), render.held_rate(plan, way)) for way in ways]
    titles = ("split of the cores", f"highest rate at {render.bound(plan)}")
    names = [ranking.short_name(best[way]) for way in ways]
    return f"{writing.named_table('as a service', names, titles, lines)}\n"
