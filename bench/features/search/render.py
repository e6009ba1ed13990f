"""The text of `bench search`: the proposals that no other beats, and the best of them beside the fixed matrix."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from bench.api.errors import BenchError
from bench.api.loss_units import DB, SHARE
from bench.decisions.constraints import unit_of
from bench.features.search.confirm import Confirmed
from bench.features.search.effects import decibels
from bench.features.search.search import FIGURES, LATENCY, SIZE, Proposal, front
from bench.plugins import catalog
from bench.records import ranking
from bench.records.rows import Row
from bench.report import writing


def front_table(proposals: Sequence[Proposal], objective: str) -> str:
    """How many proposals of a design were tried, and a table of those that no other beats in cost and risk at once."""
    base = next(one.design.base for one in proposals)
    shown = front(proposals, objective)
    has_losses = any(one.tried.metric_loss is not None for one in proposals)
    lines = [
        [
            writing.DASH if one.tried.ratio is None else f"{one.tried.ratio:.3f}",
            f"{decibels(one.tried.noise):.1f}",
            *([_number(one.tried.metric_loss, one.tried.metric_loss_unit)] if has_losses else []),
            writing.megabytes(one.tried.size_bytes),
        ]
        for one in shown
    ]
    names = [one.cell.variant if one.cell.provider == base.provider else _with_options(one) for one in shown]
    unit = next((one.tried.metric_loss_unit for one in proposals if one.tried.metric_loss is not None), SHARE)
    lost = (f"loss\n({_name(unit)})",) if has_losses else ()
    titles = ("over the\nbaseline", "fidelity\n(dB)", *lost, "size\n(MB)")
    where = f"{base.source}/{base.exporter} on {base.runtime}/{base.provider}"
    if not shown:
        return f"{where}: none of {len(proposals)} proposals was timed.\n"
    title = f"{where}: {len(proposals)} proposals ran; of these, no other beats {len(lines)}:"
    table = writing.named_table("proposal", names, titles, lines)
    return f"{title}\n\n{table}\n{_letters(shown)}"


def _letters(proposals: Sequence[Proposal]) -> str:
    """What the letters in the names of proposals stand for."""
    variant = proposals[0].design.variant if proposals else None
    used = {letter for one in proposals for group, letter in enumerate(one.choice) if not one.design.option(group)}
    known: Mapping[str, str] = {}
    with contextlib.suppress(BenchError):
        known = {} if variant is None else catalog.variant_file(variant).letters
    told = "; ".join(f"{letter}: {known[letter]}" for letter in known if letter in used)
    spelled = "Names spell the operators with weights in order, each number of them with its letter."
    return f"{spelled} {told}.\n" if told else ""


def _with_options(one: Proposal) -> str:
    return f"{one.cell.variant} on {one.cell.provider}"


def render(found: Confirmed, tables: Sequence[str]) -> str:
    """The tables of the designs, the finalists on the test split, and the answer."""
    return "\n".join([*tables, _finalists(found), _answer(found)])


def _finalists(found: Confirmed) -> str:
    rows = [*found.finalists, *([found.fixed] if found.fixed else [])]
    lines = [
        [
            writing.milliseconds(row.latency_p50_ns),
            writing.DASH if row.ratio is None else f"{row.ratio:.3f}",
            *_lost(row, found),
            writing.megabytes(row.size_bytes),
            "yes" if row.cell in found.kept or row is found.fixed else "no",
        ]
        for row in rows
    ]
    unit = _name(unit_of(rows))
    losses = (f"loss\n({unit})", f"at most\n({unit})")
    titles = ("latency p50\n(ms)", "over the\nbaseline", *losses, "size\n(MB)", "keeps the\nmetric")
    samples = max((lost.num_samples for lost in found.losses.values()), default=0)
    on = f"On {samples:,} held-out samples" if samples else "On the test split"
    title = f"{on}, which the search did not see, beside the best of the fixed matrix:"
    return f"{title}\n\n{writing.named_table('cell', [ranking.short_name(row) for row in rows], titles, lines)}\n"


def _lost(row: Row, found: Confirmed) -> tuple[str, str]:
    """What a row loses of the metric, and its bound."""
    unit, lost = row.metric_loss_unit, found.losses.get(row.cell)
    if lost is None:
        return _number(row.metric_loss, unit), _number(row.metric_loss_high, unit)
    return _number(lost.mean, unit), _number(lost.high(), unit)


def _answer(found: Confirmed) -> str:
    if found.winner is None:
        return f"No deployment keeps the metric{'' if found.too_few is None else f': {found.too_few}'}.\n"
    best, fixed = found.winner if found.is_searched else found.best_finalist, found.fixed
    if fixed is None:
        return f"{found.winner.cell} is the only kind of deployment that was shown to keep the metric.\n"
    if best is None:
        why = "no finalist keeps the metric" if found.finalists else "no proposal is expected to"
        return f"Nothing beats {fixed.cell}: {why}.\n"
    over = None if found.over_fixed is None else writing.interval(found.over_fixed)
    if found.is_searched:
        latency = "latency not measured side by side" if over is None else f"latency {over} times"
        told = [latency, f"size {_share(best, fixed, SIZE)} times"]
        if found.objective == SIZE:
            told.reverse()
        elif found.objective != LATENCY:
            told.insert(0, f"{found.objective} {_share(best, fixed, found.objective)} times")
        return f"{best.cell}\nbeats {fixed.cell}: {', '.join(told)}.\n"
    if found.objective != LATENCY:
        share = _share(best, fixed, found.objective)
        return f"Nothing beats {fixed.cell}: the best finalist has {share} times its {found.objective}.\n"
    if over is None:
        return f"Nothing was shown to beat {fixed.cell}: the best finalist was not measured beside it.\n"
    return f"Nothing was shown to beat {fixed.cell}: the best finalist has {over} times its latency.\n"


def _share(best: Row, fixed: Row, objective: str) -> str:
    """What the objective makes small, of a row over that of another one."""
    figure, other = (getattr(row, FIGURES[objective]) for row in (best, fixed))
    return f"{figure / other:.2f}" if figure and other else writing.DASH


def _name(unit: str | None) -> str:
    """The name of the unit in which a loss of the metric is written in a table."""
    return DB if unit == DB else "%"


def _number(loss: float | None, unit: str | None) -> str:
    """A loss of the metric in that unit."""
    return writing.DASH if loss is None else f"{loss if unit == DB else 100 * loss:.2g}"
