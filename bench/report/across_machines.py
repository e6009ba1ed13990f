"""The text of `bench pick --everywhere`: the deployment with the smallest regret over all machines, and the next."""

from __future__ import annotations

import math

from bench.api.printable import printable
from bench.decisions.across_machines import Everywhere
from bench.measure.stats import Estimate
from bench.records import machines, ranking
from bench.report import writing

_MOST_SHOWN = 5
"""Cells of the table that are not the picked cell, at most."""


def render(everywhere: Everywhere) -> str:
    """A table of the machines, with the fastest cell of each and the regret of the picked cell, and one of the next."""
    picked, *others = everywhere.ranked
    many = f"{len(everywhere.ranked)} cell{'s' if others else ''}"
    parts = [f"{everywhere.title}: {many} qualify on all {len(everywhere.fastest)} machines.\n"]
    measured = [f"{name}: {where}" for name, row in everywhere.fastest.items() if (where := machines.headline([row]))]
    parts += [writing.paragraph(measured, "table")] if measured else []
    titles = ("fastest there", "p50\n(ms)", "picked\np50 (ms)", "picked over the\nfastest [95 %]")
    lines = [
        (
            writing.wrap_name(ranking.short_name(row), writing.NARROWEST_NAME * 2),
            writing.milliseconds(row.latency_p50_ns),
            writing.milliseconds(picked.rows[machine].latency_p50_ns),
            over(picked.on[machine]),
        )
        for machine, row in everywhere.fastest.items()
    ]
    named = [(printable(machine), *line) for machine, line in zip(everywhere.fastest, lines, strict=True)]
    parts.append(writing.plain(("machine", *titles), named, format="table", num_names=2))
    parts.append(f"pick for all machines: {picked.cell}\n  {said(everywhere)}\n")
    if others:
        next_ones = others[:_MOST_SHOWN]
        names = [ranking.short_name(next(iter(regrets.rows.values()))) for regrets in next_ones]
        table = writing.named_table(
            "next",
            names,
            ("over the fastest,\nwhere it is worst [95 %]",),
            [(over(regrets.worst),) for regrets in next_ones],
        )
        parts.append(table)
    return "\n".join(parts)


def said(everywhere: Everywhere) -> str:
    """What is sure of the picked cell, in one line."""
    worst, more = everywhere.ranked[0].worst, len(everywhere.untold)
    text = (
        f"where it is worst, its latency is {over(worst)} of the fastest's;\n"
        "  the interval holds on all machines together, although the cell was selected"
    )
    if math.isinf(worst.high):
        text += "\n  it has no upper end: a cell that may be the fastest somewhere has a single launch there"
    return f"{text}\n  {more} more {'are' if more > 1 else 'is'} not told apart from it" if more else text


def over(regret: Estimate) -> str:
    """A regret as the ratio to the fastest, with its interval."""
    if math.isinf(regret.high):
        return f"{writing.share(1 + regret.value)} [{writing.share(1 + regret.low)}, not known]"
    return writing.interval(Estimate(value=1 + regret.value, low=1 + regret.low, high=1 + regret.high))
