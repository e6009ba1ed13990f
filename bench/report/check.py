"""The outcome of `bench check` in one line, and as figures for programs."""

from __future__ import annotations

import dataclasses
from typing import Any

from bench.api import loss_units
from bench.api.printable import printable
from bench.decisions.check import Outcome, percent
from bench.measure.stats import Estimate
from bench.records.metric_loss import Lost
from bench.report import writing
from bench.report.writing import finite, interval


def line(outcome: Outcome) -> str:
    """One line, such as `1.003 [0.991, 1.015] times the pinned one's latency after 3 launches: fine; outputs exact`."""
    launches = f"after {outcome.num_launches} launch{'es' if outcome.num_launches > 1 else ''}"
    ratio = f"{interval(outcome.ratio)} times the pinned one's latency"
    return f"{ratio} {launches}: {outcome.verdict}; outputs {outputs(outcome)}"


def outputs(outcome: Outcome) -> str:
    """How close the outputs are and what was lost, on one line, such as `exact` or `broken (snr_db is worse)`."""
    judged = outcome.quality
    why = f" ({judged.reason})" if judged.reason else ""
    text = f"{judged.fidelity}{why or _loss(outcome)}"
    has_said = outcome.fault is None or why or (judged.metric_loss or 0.0) > outcome.max_metric_loss
    return printable(text if has_said else f"{text}; wrong: {outcome.fault}")


def figures(outcome: Outcome) -> dict[str, Any]:
    """The figures of an outcome by name, as JSON can hold them."""
    return {
        "verdict": outcome.verdict,
        "ratio": _ends(outcome.ratio),
        "control": outcome.control and _ends(outcome.control),
        "num_launches": outcome.num_launches,
        "fidelity": outcome.quality.fidelity,
        "max_abs_error": finite(outcome.quality.max_abs_error),
        "metric_loss": finite(outcome.quality.metric_loss),
        "metric_loss_unit": outcome.quality.loss_unit,
    }


def as_json(outcome: Outcome, cell: str) -> str:
    """The figures of an outcome as JSON, with the cell, whether it passed, and what is wrong with its outputs."""
    said = {"passed": outcome.passed, "fault": outcome.fault, "outputs": outputs(outcome)}
    return writing.as_json({"cell": cell, **said, **figures(outcome)})


def _ends(ratio: Estimate) -> dict[str, Any]:
    return {name: finite(value) for name, value in dataclasses.asdict(ratio).items()}


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
