"""The text of `bench pick --everywhere`: the deployment with the smallest regret over all machines, and the next."""

from __future__ import annotations

from bench.api.printable import printable
from bench.decisions.everywhere import Everywhere
from bench.measure.stats import Estimate
from bench.records import ranking
from bench.report import writing

MOST_SHOWN = 5
"""Cells of the table that are not the picked cell, at most."""


def render(found: Everywhere) -> str:
    """A table of the machines, with the fastest cell of each and the regret of the picked cell, and one of the next."""
    picked, *others = found.ranked
    many = f"{len(found.ranked)} cell{'s' if others else ''}"
    parts = [f"{found.title}: {many} qualify on all {len(found.fastest)} machines.\n"]
    titles = ("fastest there", "p50\n(ms)", "picked\np50 (ms)", "picked over the\nfastest (%)")
    lines = [
        (
            writing.wrap_name(ranking.short_name(row), writing.NARROWEST_NAME * 2),
            writing.milliseconds(row.latency_p50_ns),
            writing.milliseconds(picked.rows[machine].latency_p50_ns),
            percent(picked.on[machine]),
        )
        for machine, row in found.fastest.items()
    ]
    named = [(printable(machine), *line) for machine, line in zip(found.fastest, lines, strict=True)]
    parts.append(writing.plain(("machine", *titles), named, format="table", num_names=2))
    parts.append(f"pick for all machines: {picked.cell}\n  {said(found)}\n")
    if others:
        next_ones = others[:MOST_SHOWN]
        names = [ranking.short_name(next(iter(one.rows.values()))) for one in next_ones]
        table = writing.named_table(
            "next", names, ("largest regret (%)",), [(percent(one.worst),) for one in next_ones]
        )
        parts.append(table)
    return "\n".join(parts)


def said(found: Everywhere) -> str:
    """What is sure of the picked cell, in one line."""
    worst = found.ranked[0].worst
    text = (
        f"it is {100 * worst.value:.2g} % slower than the fastest of the machine where it is worst, "
        f"at most {100 * worst.high:.2g} % with 95 % confidence"
        if worst.value
        else f"it is the fastest on each machine, and at most {100 * worst.high:.2g} % slower with 95 % confidence"
    )
    more = found.num_plausible - 1
    return f"{text}; {more} more may be as good" if more else text


def percent(regret: Estimate) -> str:
    """A regret with its interval, in per cent."""
    value, low, high = (f"{100 * share:.1f}" for share in (regret.value, regret.low, regret.high))
    return f"{value} [{low}, {high}]"
