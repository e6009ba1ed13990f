"""In which release of a package a cell became slower, or answers otherwise: see `bench.features.bisect.bisection`."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence

from bench.api.cell import Cell
from bench.api.errors import BenchError, InputError
from bench.features.bisect import bisection
from bench.features.bisect.bisection import State
from bench.measure import comparison
from bench.measure.block import Method, Result
from bench.measure.comparison import Comparison
from bench.measure.goal import Goal
from bench.measure.limits import Limits
from bench.measure.stats import NOISE_FLOOR, Estimate
from bench.pipeline import environment_request, run_split, slowdown, verify, versions
from bench.pipeline.flow import Verified
from bench.pipeline.measuring import measure_pairs
from bench.pipeline.quality import CLOSE, EXACT
from bench.records.lines import Failure

_MOST_ERROR = 0.05
"""Chance of a wrong answer at which no further release is measured."""
_MOST_STEPS = 30
LAUNCHES, ENDS_LAUNCHES = 3, (8, 24)
"""Launches of a release in a step, and of the bad one, whose slowdown all the others are held against: more of them
where the first are not clear."""
BLAME_S = 300.0
"""Time for finding the part of the model that explains the change."""
_UNCLEAR = 0.002
"""Probability with which a clear comparison of the bad release errs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """A release that was measured beside the good one.

    Attributes:
        version: the release.
        ratio: its latency over the good one's; None where outputs are looked for, or it failed.
        outputs: how close its outputs are to the good one's; None where latency is looked for, or it failed.
        failure: why it could not be measured; None where it was.
        is_between: whether it is slower than the good release and faster than the bad one.
    """

    version: str
    ratio: Estimate | None = None
    is_between: bool = False
    outputs: str | None = None
    failure: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bisected:
    """The answer.

    Attributes:
        package: name of the package.
        cell: path of the cell in this environment.
        versions: the releases that were looked at, the good one first.
        steps: what was measured, in order; the first step is the bad release.
        by: how much slower the bad release was to be, as a share; None where outputs are looked for.
        first_bad: the release in which the change came; None where the bad one is not worse, or not clearly so.
        last_good: the release before it.
        chance_of_error: probability that another release is the first bad one, if one release brought all of the change
            and those between `last_good` and `first_bad`, which could not be measured, did not.
        is_cut: whether the time was up before that probability was small.
        blame: which part of the model explains the change, in a line; empty where that was not looked for.
    """

    package: str
    cell: str
    versions: Sequence[str]
    steps: Sequence[Step]
    by: float | None = None
    first_bad: str | None = None
    last_good: str | None = None
    chance_of_error: float = 0.0
    is_cut: bool = False
    blame: str = ""


class Releases:
    """Releases of a package under one cell, prepared and verified once each.

    Args:
        package: name of the package.
        cell: the cell in this process's environment.
        good: the release that all others are measured beside.
        method: how blocks are measured.
        may_be_large: whether downloads of gigabytes are allowed.
        tell: called with a line before each step that takes long.
    """

    def __init__(
        self,
        package: str,
        cell: Cell,
        good: str,
        method: Method,
        *,
        may_be_large: bool = False,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._tell = tell
        self._package, self._cell, self._method, self._may_be_large = package, cell, method, may_be_large
        self._known: dict[str, Verified] = {}
        self.good = self.verified(good)

    def verified(self, version: str) -> Verified:
        """The cell with a release.

        Raises:
            InputError: the package does not concern the cell.
            BenchError: the release cannot be installed, or the cell does not run with it.
        """
        if version not in self._known:
            self._tell(f"{self._package} {version}: installing it, and running the held-out samples")
            wanted = environment_request.packages(f"{self._package}=={version}")
            changed = versions.changed(self._cell, wanted, self._may_be_large)
            if changed is None:
                raise versions.unconcerned(wanted, [self._cell])
            outcome = verify.from_name(changed, self._method.limits)
            if isinstance(outcome, Failure):
                raise BenchError(outcome.reason)
            self._known[version] = outcome
        return self._known[version]

    def outputs(self, version: str) -> str:
        """How close the outputs of a release are to those of the good one. Raises as `verified`."""
        return run_split.between(self.verified(version), self.good, self._method.limits)

    def latency(self, version: str, launches: int) -> Comparison:
        """A release over the good one, measured now in the same blocks. Raises as `verified`."""

        def keep(result: Result) -> None:
            for failure in result.failures:
                raise failure.error

        goal, pair = Goal(min_launches=launches, max_launches=launches), (self.good, self.verified(version))
        self._tell(f"{self._package} {version}: measuring it beside the good release, {launches} launches")
        (group,) = measure_pairs([pair], self._method, goal, keep=keep)
        (fitted,) = comparison.fit([group.launched()])
        return fitted.against_baseline(group.ledgers[0].name)


def slower(
    releases: Releases,
    names: Sequence[str],
    package: str,
    cell: Cell,
    *,
    by: float,
    tell: Callable[[str], None],
    ends_s: float = math.inf,
) -> Bisected:
    """The release in which a cell became slower.

    Args:
        releases: measures the releases.
        names: the releases, the good one first and the bad one last.
        package, cell: for the answer.
        by: how much slower the bad one is to be, as a share.
        tell: called with a line after each step.
        ends_s: time by `time.monotonic` after which no release is begun but the bad one.

    Raises:
        BenchError: the good or the bad release cannot be measured.
    """
    answer = Bisected(package=package, cell=cell.path, versions=tuple(names), steps=(), by=by)
    for launches in ENDS_LAUNCHES:
        measured_effect = releases.latency(names[-1], launches).effect
        assert measured_effect is not None
        whole = measured_effect
        steps = [Step(version=names[-1], ratio=whole.ratio())]
        tell(_line(package, steps[-1]))
        sure = whole.ratio(_UNCLEAR)
        if sure.low > 1 + NOISE_FLOOR or sure.high < 1 + by:
            break
    if whole.ratio().low <= 1 + NOISE_FLOOR or sure.high < 1 + by:
        return dataclasses.replace(answer, steps=tuple(steps))
    after, state = list(names[1:]), bisection.start(len(names) - 1)
    is_cut = False
    while len(after) > 1 and state.chance_of_error > _MOST_ERROR and len(steps) < _MOST_STEPS:
        if is_cut := time.monotonic() >= ends_s:
            break
        version = after[index := state.next()]
        try:
            measured = releases.latency(version, LAUNCHES)
        except BenchError as error:
            steps.append(Step(version=version, failure=str(error)))
            after, state = [*after[:index], *after[index + 1 :]], bisection.without(state, index)
        else:
            assert measured.effect is not None
            is_between = bisection.between(measured.effect, whole)
            steps.append(Step(version=version, ratio=measured.ratio, is_between=is_between))
            if is_between:  # it says nothing of where the whole came, and as often as it is asked
                state = bisection.after_part(state, index, measured.effect, math.log1p(by))
            else:
                state = bisection.after(state, index, measured.effect, whole)
        tell(_line(package, steps[-1]))
    return _answer(answer, steps, after, state, names[0], is_cut)


def drifted(
    releases: Releases,
    names: Sequence[str],
    package: str,
    cell: Cell,
    *,
    tell: Callable[[str], None],
    ends_s: float = math.inf,
) -> Bisected:
    """The release in which a cell's outputs are no longer close to the good one's; arguments and errors as `slower`."""
    answer = Bisected(package=package, cell=cell.path, versions=tuple(names), steps=())
    steps = [Step(version=names[-1], outputs=releases.outputs(names[-1]))]
    tell(_line(package, steps[-1]))
    if steps[-1].outputs in (EXACT, CLOSE):
        return dataclasses.replace(answer, steps=tuple(steps))
    after, state = list(names[1:]), bisection.start(len(names) - 1)
    is_cut = False
    while len(after) > 1 and state.chance_of_error > 0:
        if is_cut := time.monotonic() >= ends_s:
            break
        version = after[index := state.next()]
        try:
            outputs = releases.outputs(version)
        except BenchError as error:
            steps.append(Step(version=version, failure=str(error)))
            after, state = [*after[:index], *after[index + 1 :]], bisection.without(state, index)
        else:
            steps.append(Step(version=version, outputs=outputs))
            state = bisection.after_certain(state, index, is_bad=outputs not in (EXACT, CLOSE))
        tell(_line(package, steps[-1]))
    return _answer(answer, steps, after, state, names[0], is_cut)


def blamed(
    answer: Bisected, releases: Releases, *, is_drift: bool, limits: Limits, tell: Callable[[str], None]
) -> Bisected:
    """The answer with the part of the model that explains the change between the last good release and the first bad.

    Where that cannot be found out, the answer says why: it is not lost.
    """
    assert answer.last_good is not None
    assert answer.first_bad is not None
    try:
        question = slowdown.Question(
            before=releases.verified(answer.last_good),
            after=releases.verified(answer.first_bad),
            names=(f"{answer.package} {answer.last_good}", f"{answer.package} {answer.first_bad}"),
            is_drift=is_drift,
            budget_s=BLAME_S,
            limits=limits,
            tell=tell,
        )
        text = slowdown.explained(question)
    except (BenchError, OSError) as error:
        text = f"{slowdown.UNTOLD}: {error}"
    return dataclasses.replace(answer, blame=text)


def _answer(
    answer: Bisected, steps: Sequence[Step], after: Sequence[str], state: State, good: str, is_cut: bool
) -> Bisected:
    return dataclasses.replace(
        answer,
        steps=tuple(steps),
        first_bad=after[state.first_bad],
        last_good=[good, *after][state.first_bad],
        chance_of_error=state.chance_of_error,
        is_cut=is_cut,
    )


def _line(package: str, step: Step) -> str:
    return f"{package} {step.version}: {description(step)}"


def description(step: Step) -> str:
    """What a step showed, in words."""
    if step.failure is not None:
        return f"left out: {step.failure}"
    if step.ratio is not None:
        return f"{step.ratio.value:.3f} [{step.ratio.low:.3f}, {step.ratio.high:.3f}] times the good release's latency"
    return f"outputs {step.outputs} beside the good release's"


def one_cell(cells: Sequence[Cell], package: str) -> Cell:
    """The only cell that globs name.

    Raises:
        InputError: they name several.
    """
    if len(cells) != 1:
        some = ", ".join(cell.path for cell in cells[:3])
        raise InputError(f"--cell names {len(cells)} cells; name one of them to follow {package} through: {some}, ...")
    return cells[0]
