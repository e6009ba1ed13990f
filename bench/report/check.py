"""The outcome of `bench check` in one line."""

from __future__ import annotations

from bench.decisions.check import Outcome
from bench.report.writing import interval


def line(outcome: Outcome) -> str:
    """One line, such as `1.003 [0.991, 1.015] times the pinned one's latency after 3 launches: fine; outputs exact`."""
    launches = f"after {outcome.num_launches} launch{'es' if outcome.num_launches > 1 else ''}"
    judged = outcome.quality
    why = f" ({judged.reason})" if judged.reason else ""
    if judged.fidelity == "drifted" and judged.metric_loss is not None:
        change = "worse" if judged.metric_loss >= 0 else "better"
        why = f", {100 * abs(judged.metric_loss):.2g} % {change}" + ("" if outcome.is_right else ": too much")
    ratio = f"{interval(outcome.ratio)} times the pinned one's latency"
    return f"{ratio} {launches}: {outcome.verdict}; outputs {judged.fidelity}{why}"
