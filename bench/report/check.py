"""The outcome of a regression check as one line."""

from __future__ import annotations

from bench.decisions.check import Outcome
from bench.pipeline import quality


def line(outcome: Outcome) -> str:
    """Such as `1.003 [0.991, 1.015] times the pinned one's latency after 3 launches: fine; outputs exact`."""
    ratio, judged = outcome.ratio, outcome.quality
    said = f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}] times the pinned one's latency"
    launches = f"after {outcome.num_launches} launch{'es' if outcome.num_launches > 1 else ''}"
    why = f" ({judged.reason})" if judged.reason else ""
    if judged.fidelity == quality.DRIFTED and judged.metric_loss is not None:
        change = "worse" if judged.metric_loss >= 0 else "better"
        why = f", {100 * abs(judged.metric_loss):.2g} % {change}" + ("" if outcome.is_right else ": too much")
    return f"{said} {launches}: {outcome.verdict}; outputs {judged.fidelity}{why}"
