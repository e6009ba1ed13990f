"""The line that other commands and the guard show of a slowdown: see `bench.pipeline.slowdown`."""

from __future__ import annotations

import time

from bench.features.blame import answer, inquiry
from bench.features.blame.sides import Pair, Side
from bench.pipeline.slowdown import Question
from bench.plugins import catalog


def explain(question: Question) -> str:
    """Blame one side, write the reproducer, and say it in a line."""
    before, after = (
        Side(name=name, cell=value.cell, artifact=value.artifact)
        for name, value in zip(question.names, (question.before, question.after), strict=True)
    )
    begin_s, tolerance = time.monotonic(), catalog.task(after.cell.task).close
    result: answer.Blame | answer.DriftBlame
    with inquiry.opened(Pair(before=before, after=after, samples=after.cell), question.limits, question.tell) as both:
        if question.is_drift:
            result = inquiry.wrong(both, tolerance=tolerance, tell=question.tell)
        else:
            result = inquiry.slower(both, begin_s=begin_s, budget_s=question.budget_s, tell=question.tell)
        return answer.headline(inquiry.reproduce(both, result, question.folder))
