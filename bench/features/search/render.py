"""The text of `bench search`: the proposals that no other beats, and the best of them beside the fixed matrix."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from bench.api.errors import BenchError
from bench.api.loss_units import DB, SHARE
from bench.decisions.constraints import unit_of
from bench.features.search.confirm import Confirmed
from bench.features.search.effects import decibels
from bench.features.search.proposals import FIGURES, LATENCY, SIZE, Proposal, front
from bench.plugins import catalog
from bench.records import ranking
from bench.records.rows import Row
from bench.report import writing


def front_table(proposals: Sequence[Proposal], objective: str) -> str:
    """How many proposals of a design were tried, and a table of those that no other beats in cost and risk at once."""
    base = next(proposal.design.base for proposal in proposals)
    shown = front(proposals, objective)
    has_losses = any(proposal.tried.metric_loss is not None for proposal in proposals)
    lines = [
        [
            writing.DASH if proposal.tried.ratio is None else f"{proposal.tried.ratio:.3f}",
            f"{decibels(proposal.tried.noise):.1f}",
            *([_number(proposal.tried.metric_loss, proposal.tried.metric_loss_unit)] if has_losses else []),
            writing.megabytes(proposal.tried.size_bytes),
        ]
        for proposal in shown
    ]
    names = [
        proposal.cell.variant if proposal.cell.provider == base.provider else _with_options(proposal)
        for proposal in shown
    ]
    unit = next(
        (proposal.tried.metric_loss_unit for proposal in proposals if proposal.tried.metric_loss is not None), SHARE
    )
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
    used = {
        letter
        for proposal in proposals
        for group, letter in enumerate(proposal.choice)
        if not proposal.design.option(group)
    }
    known: Mapping[str, str] = {}
    with contextlib.suppress(BenchError):
        known = {} if variant is None else catalog.variant_file(variant).letters
    meanings = "; ".join(f"{letter}: {known[letter]}" for letter in known if letter in used)
    spelled = "Names spell the operators with weights in order, each number of them with its letter."
    return f"{spelled} {meanings}.\n" if meanings else ""


def _with_options(proposal: Proposal) -> str:
    return f"{proposal.cell.variant} on {proposal.cell.provider}"


def render(confirmed: Confirmed, tables: Sequence[str]) -> str:
    """The tables of the designs, the finalists on the test split, and the answer."""
    return "\n".join([*tables, _finalists(confirmed), _answer(confirmed)])


def _finalists(confirmed: Confirmed) -> str:
    rows = [*confirmed.finalists, *([confirmed.fixed] if confirmed.fixed else [])]
    lines = [
        [
            writing.milliseconds(row.latency_p50_ns),
            writing.DASH if row.ratio is None else f"{row.ratio:.3f}",
            *_lost(row, confirmed),
            writing.megabytes(row.size_bytes),
            "yes" if row.cell in confirmed.keepers or row is confirmed.fixed else "no",
        ]
        for row in rows
    ]
    unit = _name(unit_of(rows))
    losses = (f"loss\n({unit})", f"at most\n({unit})")
    titles = ("latency p50\n(ms)", "over the\nbaseline", *losses, "size\n(MB)", "keeps the\nmetric")
    samples = max((lost.num_samples for lost in confirmed.losses.values()), default=0)
    on = f"On {samples:,} held-out samples" if samples else "On the test split"
    title = f"{on}, which the search did not see, beside the best of the fixed matrix:"
    return f"{title}\n\n{writing.named_table('cell', [ranking.short_name(row) for row in rows], titles, lines)}\n"


def _lost(row: Row, confirmed: Confirmed) -> tuple[str, str]:
    """What a row loses of the metric, and its bound."""
    unit, lost = row.metric_loss_unit, confirmed.losses.get(row.cell)
    if lost is None:
        return _number(row.metric_loss, unit), _number(row.metric_loss_high, unit)
    return _number(lost.mean, unit), _number(lost.high(), unit)


def _answer(confirmed: Confirmed) -> str:
    if confirmed.winner is None:
        return f"No deployment keeps the metric{'' if confirmed.too_few is None else f': {confirmed.too_few}'}.\n"
    best, fixed = confirmed.winner if confirmed.is_searched else confirmed.best_finalist, confirmed.fixed
    if fixed is None:
        return f"{confirmed.winner.cell} is the only kind of deployment that was shown to keep the metric.\n"
    if best is None:
        why = "no finalist keeps the metric" if confirmed.finalists else "no proposal is expected to"
        return f"Nothing beats {fixed.cell}: {why}.\n"
    over = None if confirmed.over_fixed is None else writing.interval(confirmed.over_fixed)
    if confirmed.is_searched:
        latency = "latency not measured side by side" if over is None else f"latency {over} times"
        phrases = [latency, f"size {_share(best, fixed, SIZE)} times"]
        if confirmed.objective == SIZE:
            phrases.reverse()
        elif confirmed.objective != LATENCY:
            phrases.insert(0, f"{confirmed.objective} {_share(best, fixed, confirmed.objective)} times")
        return f"{best.cell}\nbeats {fixed.cell}: {', '.join(phrases)}.\n"
    if confirmed.objective != LATENCY:
        share = _share(best, fixed, confirmed.objective)
        return f"Nothing beats {fixed.cell}: the best finalist has {share} times its {confirmed.objective}.\n"
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
