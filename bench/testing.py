"""The fixture `guard` for your own tests: it fails when a new artifact is slower than a pinned artifact, or wrong.

    from bench.testing import guard

    def test_export_is_as_fast_as_ever(guard):
        guard("exported/model.onnx", pinned="pinned/model.onnx")

The samples of the new artifact are pytest-benchmark's, too, so `--benchmark-autosave`, `--benchmark-compare`,
`--benchmark-json` and `--benchmark-histogram` work; the verdict is in `extra_info`. Nothing is measured with
`--benchmark-disable` or `--benchmark-skip`.
"""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from bench.api.errors import BenchError, InputError
from bench.api.loss_units import AllowedLoss
from bench.api.printable import printable
from bench.decisions import check
from bench.decisions.check import Outcome
from bench.measure import stats
from bench.measure.block import Method
from bench.measure.goal import REGRESSION
from bench.measure.limits import Limits
from bench.pipeline import environment_request, slowdown
from bench.report.check import figures, line
from bench.tasks import adopt
from bench.tasks.hub.fetch import Asked, fetch
from bench.tasks.hub.reference import is_named


def replayed_s(samples_s: Iterable[float]) -> Iterator[float]:
    """The times at which pytest-benchmark reads its timer, so that its rounds take as long as samples measured before.

    Args:
        samples_s: seconds of each round.

    Returns:
        Seconds at the start and at the end of each round, in turn; a round starts when the round before it ends.
    """
    return itertools.chain.from_iterable(itertools.pairwise(itertools.accumulate(samples_s, initial=0.0)))


@contextlib.contextmanager
def printable_errors() -> Iterator[None]:
    """Make the message of a `BenchError`, and those of its causes, printable; pytest prints messages as they are."""
    try:
        yield
    except BenchError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, BenchError):
                cause.args = (printable(str(cause)),)
            cause = cause.__cause__
        raise


class Guard:
    """The value of the fixture: a test calls it once.

    Args:
        request: the fixture's request; the test's benchmark gets a timer whose rounds take as long as the samples of
            the new artifact.
    """

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._name = request.node.name
        self._limits = Limits.of(step_s=None, memory_bytes=None)
        self._times_s: Iterator[float] = iter(())
        request.node.add_marker(pytest.mark.benchmark(timer=self._time_s, warmup=False))
        self._benchmark = request.getfixturevalue("benchmark")

    def _time_s(self) -> float:
        """Seconds: the start of a round, or its end, by turns."""
        return next(self._times_s)

    @printable_errors()
    def __call__(
        self,
        new: str | Path | None = None,
        *,
        pinned: str | Path,
        dataset: str | Path | None = None,
        dims: Sequence[str] = (),
        shapes: Sequence[str] = (),
        trust: bool = False,
        metric: str | None = None,
        output: str | None = None,
        runtime: str | None = None,
        provider: str | None = None,
        batch: int = 1,
        threads: int = 1,
        pinned_with: str | None = None,
        may_be_large: bool = False,
        tolerance: float = check.TOLERANCE,
        max_metric_loss: float | None = None,
        max_launches: int = check.MAX_LAUNCHES,
        budget_s: float = check.BUDGET_S,
        blame_s: float | None = None,
    ) -> Outcome:
        """Measure both artifacts side by side and fail when the new one is slower by more than the tolerance, or wrong.

        Args:
            new: model file; None where `pinned` is a folder that `bench pick` saved, whose cell is then made anew, or
                where the pinned file itself runs with two versions.
            pinned: model file to compare with, or a folder that `bench pick` saved. Like `new`, it may be a model of
                the hub, as `hf:org/name@revision`.
            dataset: samples for both models, in a form that `bench run --dataset` takes.
            dims: sizes of dimensions that the models leave open, such as `seq=128`.
            shapes: shapes of inputs, such as `image=1x3x224x224`.
            trust: whether code in the files may run.
            metric: metric of the data set's targets, as `bench check --metric` takes it.
            output: name of the output that is compared with the targets.
            runtime: name of the runtime, as in a cell's path; the usual runtime of the format by default.
            provider: name of the provider, as in a cell's path; the runtime's first provider by default.
            batch: number of samples in an inference.
            threads: number of threads.
            pinned_with: versions that the pinned artifact runs with, as `--with` takes them, such as
                `onnxruntime==1.22.0`; by default those that are installed.
            may_be_large: whether downloads of gigabytes for `pinned_with` are allowed.
            tolerance: how much slower the new artifact may be, as a share.
            max_metric_loss: the most that may be lost of the pinned artifact's metric, as a share, or in dB of a metric
                in dB; by default 1 %, or 0.1 dB. Without targets, largest share of error in the outputs.
            max_launches: largest number of launches of each artifact.
            budget_s: seconds after which no further launch is begun.
            blame_s: seconds for finding which part of the model makes a slower artifact slower; the message of the
                failure then names it, and where a reproducer of it is. None for not looking.

        Raises:
            BenchError: one of the artifacts cannot be measured.
        """
        if not self._benchmark.enabled:
            pytest.skip("benchmarks are disabled; --benchmark-enable measures")
        if self._benchmark.stats is not None:
            raise InputError("guard measures once in a test: pytest-benchmark keeps one set of samples for each")
        pinned = _here(pinned, trust=trust, may_be_large=may_be_large)
        new = _here(new, trust=trust, may_be_large=may_be_large) if new is not None else None
        versions = environment_request.packages(pinned_with) if pinned_with else None
        if new is None and (versions is None or (Path(pinned) / "deployment.json").is_file()):
            pair = check.pair_of_pick(
                Path(pinned), pinned_with=versions, may_be_large=may_be_large, limits=self._limits
            )
        else:
            options = adopt.Options(
                dataset=Path(dataset) if dataset else None,
                dims=tuple(dims),
                shapes=tuple(shapes),
                trust=trust,
                metric=metric,
                output=output,
            )
            pair = check.pair_of_files(
                Path(pinned),
                Path(new or pinned),
                options=options,
                runtime=runtime,
                provider=provider,
                pinned_with=versions,
                may_be_large=may_be_large,
                batch=batch,
                threads=threads,
                limits=self._limits,
            )
        goal = check.goal(tolerance=tolerance, max_launches=max_launches, budget_s=budget_s)
        for note in pair.notes:
            warnings.warn(f"{self._name}: {printable(note)}", stacklevel=2)
        allowed = None if max_metric_loss is None else AllowedLoss(share=max_metric_loss, db=max_metric_loss)
        outcome = check.measure(pair, goal, Method(limits=self._limits), max_metric_loss=allowed)
        self._benchmark.extra_info.update(figures(outcome))
        self._times_s = replayed_s(sample / 1e9 for sample in outcome.new_ns)
        self._benchmark.pedantic(lambda: None, rounds=len(outcome.new_ns))
        if not outcome.passed:
            pytest.fail("; ".join([line(outcome), *self._blamed(pair, outcome, blame_s)]), pytrace=False)
        if outcome.verdict == stats.UNDECIDED:
            warnings.warn(f"{self._name}: {line(outcome)}", stacklevel=2)
        return outcome

    def _blamed(self, pair: check.Pair, outcome: Outcome, blame_s: float | None) -> list[str]:
        """What makes the new artifact slower, in a line, if that is to be found out."""
        if blame_s is None or outcome.verdict != REGRESSION:
            return []
        question = slowdown.Question(
            before=pair.pinned, after=pair.new, names=("pinned", "new"), budget_s=blame_s, limits=self._limits
        )
        try:
            return [printable(slowdown.explained(question))]
        except (BenchError, OSError) as error:
            return [f"{slowdown.UNTOLD}: {printable(str(error))}"]


def _here(path: str | Path, *, trust: bool, may_be_large: bool) -> str | Path:
    """The path itself; of a model of the hub, that of its files in the cache, to which they are fetched.

    Raises:
        InputError: it cannot be fetched.
    """
    if not is_named(str(path)):
        return path
    return fetch(str(path), Asked(trust=trust, may_be_large=may_be_large), lambda _: None)


@pytest.fixture
def guard(request: pytest.FixtureRequest) -> Guard:
    """See `Guard`."""
    return Guard(request)
