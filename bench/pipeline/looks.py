"""Verification that ends when it has decided: the samples of a split run in a drawn order until the loss is bounded.

Every cell runs the same first samples, which show whether it is broken. Where some of their answers differ from the
reference's, the metric is an estimate, and the cell runs more of them for a short while, or all where rounding changed
it and the rest takes little time: then its metric is that of the whole split in all digits. A cell that matters goes on
until the bound on its loss is within the limit, or to the end of the split. Where no sample loses anything, that is
after as many samples as the limit takes; where some do, only the whole split decides. The bound holds at all of these
looks together, see `bench.records.metric_loss`.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.api import Arrays, Outputs, Samples, Task, ragged
from bench.onnxfile.deferred import np
from bench.pipeline import feeding, judging, quality
from bench.pipeline.quality import Part
from bench.records import metric_loss
from bench.records.lines import Quality
from bench.records.metric_loss import Lost

GATE = 64
"""Samples that every cell runs, or as many, `FEWEST` at least, as take `GATE_S`."""
FEWEST = 16
GATE_S = 2.0
ESTIMATE_S = 2.0
"""Time for samples of a cell that does not matter and whose answers differ."""
_ROUNDED_S = 4.0
"""Most time for the rest of the samples of a cell whose metric differs by rounding alone."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Until:
    """When a verification has decided.

    Attributes:
        limit: the most that may be lost of the metric, in the unit of the task, of a cell whose first samples were
            looked at before; zero for the whole split. None to stop after the first samples, whatever they lose.
        alpha: probability that more is lost; less than 5 % for one of several cells of which one is shipped, see
            `bench.records.metric_loss.level`.
    """

    limit: float | None = None
    alpha: float = metric_loss.ALPHA

    def is_met(self, judgement: Quality) -> bool:
        """Whether a quality tells enough; that of a whole split always does."""
        if judgement.is_whole:
            return True
        if judgement.fidelity == quality.BROKEN:
            return judgement.metrics is None  # else by the metric, of which a part of the split does not tell enough
        if not isinstance(judgement.lost, Lost):
            return False
        return self.limit is None or judgement.lost.high(alpha=self.alpha) <= self.limit


def run(
    call: Callable[[Arrays], Outputs],
    task: Task,
    samples: Samples,
    expected: Arrays,
    batch: int,
    until: Until,
    *,
    reference: Quality,
    precision: str | None,
    begun: Arrays | None = None,
) -> tuple[dict[str, np.ndarray], Part | None, Quality]:
    """Run samples until the verification has decided.

    Args:
        call: runs one inference, and returns the outputs in the task's order.
        task: the task.
        samples: the split.
        expected: the reference's outputs for the split.
        batch: number of samples in an inference.
        until: when to stop.
        reference: the reference's quality on the whole split.
        precision: that of the session.
        begun: outputs of the first samples in the drawn order, which are not run again.

    Returns:
        The outputs; the part of the split that they are of, None for the whole split in its own order; and the quality.
    """
    order = feeding.drawn(samples.num_samples)
    figures: dict[str, Any] = {"loss": reference.loss, "metrics": reference.metrics or {}}
    portions: list[Arrays] = [] if begun is None else [begun]
    num_begun = sum(len(next(iter(arrays.values()))) for arrays in portions)
    most, num_looks = FEWEST, 0
    began_s = ends_s = time.monotonic()
    while True:
        num = sum(len(next(iter(arrays.values()))) for arrays in portions)
        rows = order[num : min(len(order), -(-most // batch) * batch)]
        if rows:
            few = Samples(inputs=feeding.rows_of(samples.inputs, rows), targets=None)
            portions.append(feeding.run_all(call, task, few, batch))
            num += len(rows)
        outputs = {name: ragged.joined([arrays[name] for arrays in portions]) for name in portions[0]}
        portions = [outputs]
        if num == len(order):
            back = np.argsort(order)
            outputs = {name: array[back] for name, array in outputs.items()}
            in_order = until.limit is not None or num_looks > 0  # else nobody looked before the end
            judged = judging.judge(task, samples, outputs, expected, precision=precision, in_order=in_order)
            return outputs, None, judged
        now_s = time.monotonic()
        if num < GATE and now_s < began_s + GATE_S:
            most = min(GATE, num + FEWEST)
            continue
        num_looks += 1
        ends_s = now_s + ESTIMATE_S if num_looks == 1 else ends_s
        part = Part(rows=order[:num], **figures)
        judged = judging.judge(task, samples, outputs, expected, precision=precision, part=part)
        is_estimate = until.limit is None and isinstance(judged.lost, Lost) and judged.lost.points
        rest_s = (now_s - began_s) / max(1, num - num_begun) * (len(order) - num)
        is_rounded = rest_s <= _ROUNDED_S and _is_rounded(judged, figures["metrics"], task.metric_name)
        if until.is_met(judged) and not is_rounded and not (is_estimate and now_s < ends_s):
            return outputs, part, judged
        most = 2 * num if is_estimate and not is_rounded else _next(judged, num, len(order), until)


def _is_rounded(judged: Quality, metrics: Mapping[str, float | None], name: str) -> bool:
    """Whether rounding alone changed the ranked metric."""
    return judged.fidelity == quality.CLOSE and (judged.metrics or {}).get(name) != metrics.get(name)


def _next(judged: Quality, num: int, total: int, until: Until) -> int:
    """The number of samples after which to look again, of which `num` have run."""
    lost = judged.lost
    if until.limit is None or not isinstance(lost, Lost) or any(points > 0 for _, points in lost.points):
        return total
    needed = metric_loss.num_without_loss(until.limit, score=lost.score, most=lost.most, alpha=until.alpha)
    each = num / lost.num_samples  # not every sample counts for the metric
    most = math.ceil(needed * each)
    return most if most > num else min(total, num + GATE)
