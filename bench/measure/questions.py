"""The questions of a sweep, and which of them the launches so far leave open.

Each cell is asked for a verdict against the baseline. Among the candidates, the cells that keep to what is asked of a
deployment, the sweep asks for a winner that is sure to be nearly as fast as any other, for the cells that are as good
as the winner within a few per cent, and for the winner's gain, or that of every cell. A cell gets launches only while a
question about it is open, first where few launches are expected to answer it; a cell that has a verdict and was shown
to be slower than the winner gets none, unless every gain is wanted.

A sweep looks at its questions after every block and stops at the first answer. So a cell that may have 16 launches is
looked at up to 16 times, and an answer counts at the level at which all these looks together are wrong as rarely as is
said (`bench.measure.looks`). Over cells and requests the level is corrected as that of the claims that are shown.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from bench.measure import corrections, stats
from bench.measure.comparison import Comparison, Fitted
from bench.measure.looks import nominal
from bench.measure.selection import LEAST_LAUNCHES, highest, is_known, lowest, select
from bench.measure.stats import Effect

VERDICT, BEST, WITHIN, GAIN = "verdict", "best", "within", "gain"
_RANKS = {BEST: 3, VERDICT: 2, WITHIN: 1, GAIN: 1}
"""The order of questions that may be answered: a decision first, then verdicts, then details."""
_NEAR = 0.15
"""A candidate that looks slower than the fastest by no more than this share comes before the others: their launches
decide, and tell more of the scatter by which the others may be no rivals without a launch of their own."""
_HOPELESS = 10.0
"""Divides the ranks of questions that no launches are expected to answer."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Aims:
    """The precision at which questions count as answered.

    Attributes:
        margin: largest difference that a verdict counts as noise, and the half-width of the interval of the winner's
            gain, as shares.
        every_gain: whether that half-width is wanted of each cell's ratio to the baseline, not of the winner's alone.
        within: a cell that is slower by no more than this share is as good as the winner.
        regret: largest share by which the winner may be slower than another candidate.
    """

    margin: float = 0.02
    every_gain: bool = False
    within: float = 0.03
    regret: float = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparisonGroup:
    """The cells of one request as they are compared: those whose verdicts are wanted, and those that may win.

    Attributes:
        fitted: the cells' levels by the launches so far.
        verdict_cells: names of the cells that the sweep is about.
        candidates: names of those among them that may win.
    """

    fitted: Fitted
    verdict_cells: Sequence[str]
    candidates: Sequence[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """An open question, and the launches that would answer it.

    Attributes:
        kind: `verdict`, `best`, `within` or `gain`.
        cells: names of the cells whose launches bear on it.
        launches: further launches of each of these cells that would answer the question, if their scatter and the
            estimate stay near what they are now; None where `most` launches would not.
        is_near: whether it is about a choice between cells that look alike, by `_NEAR`, or about a rival of one launch
            once these have more than `LEAST_LAUNCHES`: without another, nothing is claimed of the choice.
    """

    kind: str
    cells: tuple[str, ...]
    launches: int | None
    is_near: bool = False

    @property
    def urgency(self) -> tuple[float, bool, float]:
        """The larger, the sooner the question is worth a launch: its rank, `is_near`, and how near the answer is.

        Cells that look alike come first in their own request alone: see `bench.measure.planning`.

        Questions that the allowed launches are not expected to answer come after all others, and decisions first of
        them: with more launches, more is known of the scatter, and the expectation may prove wrong.
        """
        rank = _RANKS[self.kind]
        return (rank, self.is_near, 1 / self.launches) if self.launches else (rank / _HOPELESS, self.is_near, 0.0)


def open_questions(groups: Sequence[ComparisonGroup], aims: Aims, *, most: int) -> list[list[Question]]:
    """The open questions of each group about cells that have been launched.

    Args:
        groups: the groups of a sweep; verdicts are corrected for the number of cells of all of them.
        aims: when a question counts as answered.
        most: largest number of launches of a cell.
    """
    comparisons = [
        (index, name, group.fitted.against_baseline(name))
        for index, group in enumerate(groups)
        for name in group.verdict_cells
        if name != group.fitted.baseline and name in group.fitted.names
    ]
    alpha = nominal(stats.ALPHA, most)
    judged = corrections.judge([comparison for *_, comparison in comparisons], margin=aims.margin, alpha=alpha)

    def has_verdict(effect: Effect) -> bool:
        return stats.verdict(effect.ratio(alpha), margin=aims.margin) != stats.UNDECIDED

    questions: list[list[Question]] = [_of_winner(group, aims, most) for group in groups]
    for (index, name, comparison), judgement in zip(comparisons, judged, strict=True):
        if not comparison.effect or judgement is None:
            continue
        if judgement.verdict == stats.UNDECIDED:
            launches = _launches(comparison.effect, comparison.num_launches, most, has_verdict)
            questions[index].append(Question(kind=VERDICT, cells=(name,), launches=launches))
        if aims.every_gain:
            questions[index] += [
                each for each in _of_gain(name, comparison, aims, most) if each not in questions[index]
            ]
    return questions


def _of_winner(group: ComparisonGroup, aims: Aims, most: int) -> list[Question]:
    """The open questions about the winner of a group."""
    fitted = group.fitted
    near_best = select(fitted, group.candidates, within=aims.regret, looks=most)
    near = select(fitted, group.candidates, within=aims.within, looks=most)
    if near_best is None or near is None:
        return []
    first = near.first

    def is_best(effect: Effect) -> bool:
        return lowest(effect, near_best.alpha) >= -math.log1p(aims.regret)

    def is_told(effect: Effect) -> bool:
        within = math.log1p(aims.within)
        return highest(effect, near.alpha) <= within or lowest(effect, near.alpha) > within

    near_first = _near(fitted, first, near_best.rivals)
    has_scatter = all(fitted.num_launches[name] > LEAST_LAUNCHES for name in near_first)
    questions: list[Question] = []
    for kind, rivals, is_answered in ((BEST, near_best.rivals, is_best), (WITHIN, near.rivals, is_told)):
        for name in rivals:
            comparison = fitted.between(name, first)
            assert comparison.effect is not None
            is_open = not is_known(fitted, name, first) or not is_answered(comparison.effect)
            if is_open and (name, first) not in [question.cells for question in questions]:
                fewest = min(fitted.num_launches[name], fitted.num_launches[first])
                launches = _launches(comparison.effect, fewest, most, is_answered)
                if kind == BEST and fewest < LEAST_LAUNCHES <= most:  # what they scatter by is a guess until then
                    launches = launches or LEAST_LAUNCHES - fewest
                is_owed = has_scatter and fitted.num_launches[name] < LEAST_LAUNCHES
                is_near = kind == BEST and (name in near_first or is_owed)
                questions.append(Question(kind=kind, cells=(name, first), launches=launches, is_near=is_near))
    if not questions and not is_known(fitted, first):
        missing = LEAST_LAUNCHES - fitted.num_launches[first]
        questions.append(Question(kind=BEST, cells=(first,), launches=missing if most >= LEAST_LAUNCHES else None))
    if first != fitted.baseline:
        questions += _of_gain(first, fitted.against_baseline(first), aims, most)
    return questions


def _of_gain(name: str, comparison: Comparison, aims: Aims, most: int) -> list[Question]:
    """The question about the ratio of a cell to the baseline; none where its interval is narrow."""
    if comparison.effect is None or _is_narrow(comparison.effect, aims.margin):
        return []
    launches = _launches(
        comparison.effect, comparison.num_launches, most, lambda effect: _is_narrow(effect, aims.margin)
    )
    return [Question(kind=GAIN, cells=(name,), launches=launches)]


def _near(fitted: Fitted, first: str, rivals: Sequence[str]) -> set[str]:
    """The cell that looks fastest and its rivals that look as fast, by `_NEAR`."""
    return {first, *(name for name in rivals if fitted.effect(name, first).value <= math.log1p(_NEAR))}


def _launches(effect: Effect, launches: int, most: int, is_answered: Callable[[Effect], bool]) -> int | None:
    """Further launches after which a question may be answered; None where that takes more than `most` in all.

    Args:
        effect: the difference that the question is about.
        launches: number of launches so far; of two cells, that of the cell with fewer, whose error weighs most.
        most: largest number of launches of a cell.
        is_answered: whether an effect answers the question.
    """
    # The estimate may move by its present error in either direction.
    moved = [dataclasses.replace(effect, value=effect.value + step * effect.error) for step in (0, -1, 1)]
    for number in range(launches + 1, most + 1):
        if any(is_answered(estimate.after(number / launches)) for estimate in moved):
            return number - launches
    return None


def _is_narrow(effect: Effect, share: float) -> bool:
    return effect.half_width() <= math.log1p(share)
