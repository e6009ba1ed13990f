"""The judgement of a cell's outputs: of generated text by `generated`, and of all other outputs by `quality`."""

from __future__ import annotations

from bench.api import Arrays, Samples, Task
from bench.pipeline import generation_quality, quality
from bench.pipeline.quality import Part
from bench.records.lines import Quality


def judge(
    task: Task,
    samples: Samples,
    outputs: Arrays,
    expected: Arrays | None,
    *,
    precision: str | None = None,
    part: Part | None = None,
    in_order: bool = False,
) -> Quality:
    """See `quality.judge`; `precision` is that of the session, which counts for generated text alone."""
    if task.request is not None:
        return generation_quality.judge(task, samples, outputs, expected, precision)
    return quality.judge(task, samples, outputs, expected, part=part, in_order=in_order)


def compare(task: Task, outputs: Arrays, expected: Arrays) -> Quality:
    """See `quality.compare`."""
    if task.request is not None:
        outputs, expected = generation_quality.comparable(outputs, expected)
    return quality.compare(task, outputs, expected)
