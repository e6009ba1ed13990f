"""The outcome of `bench check` in one line."""

from __future__ import annotations

from bench.api import loss_units
from bench.api.printable import printable
from bench.decisions.check import Outcome, percent
from bench.records.metric_loss import Lost
from bench.report.writing import interval


def line(outcome: Outcome) -> str:
    """One line, such as `1.003 [0.991, 1.015] times the pinned one's latency after 3 launches: fine; outputs exact`."""
    launches = f"after {outcome.num_launches} launch{'es' if outcome.num_launches > 1 else ''}"
    judged = outcome.quality
    why = f" ({judged.reason})" if judged.reason else ""
    ratio = f"{interval(outcome.ratio)} times the pinned one's latency"
    text = f"{ratio} {launches}: {outcome.verdict}; outputs {judged.fidelity}{why or _loss(outcome)}"
    has_said = outcome.fault is None or why or (judged.metric_loss or 0.0) > outcome.max_metric_loss
    return printable(text if has_said else f"{text}; wrong: {outcome.fault}")


def _loss(outcome: Outcome) -> str:
    """The loss that was judged, its limit, and the bound of the loss on other samples; empty for equal outputs."""
    judged = outcome.quality
    if judged.metric_loss is None or judged.fidelity == "exact":
        return ""
    unit = judged.loss_unit
    lost = abs(judged.metric_loss)
    samples = f"the {judged.lost.num_samples:,} samples" if isinstance(judged.lost, Lost) else "the samples"
    shown = _amount(lost if lost >= loss_units.least_shown(unit) else 0.0, unit)
    change = f"{shown} {'worse' if judged.metric_loss >= 0 else 'better'} on {samples}"
    allowed = f"a loss of {_amount(outcome.max_metric_loss, unit)} is allowed"
    bound = ""
    if isinstance(judged.lost, Lost):
        high = judged.lost.high()
        most = f"at most {_amount(high, unit)} worse" if high >= 0 else f"at least {_amount(-high, unit)} better"
        bound = f"; on others like them {most}, with 95 % confidence"
    return f", {change}: {'too much, ' if judged.metric_loss > outcome.max_metric_loss else ''}{allowed}{bound}"


def _amount(loss: float, unit: str) -> str:
    return loss_units.text(loss, unit) if unit == loss_units.DB else percent(100 * loss)
