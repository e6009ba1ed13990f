"""The fixture `guard` for tests of one's own: fails when a new artifact is slower than a pinned one, or wrong.

    from bench.testing import guard

    def test_export_is_as_fast_as_ever(guard):
        guard("exported/model.onnx", pinned="pinned/model.onnx")

The samples of the new artifact are pytest-benchmark's, too, so `--benchmark-autosave`, `--benchmark-compare`,
`--benchmark-json` and `--benchmark-histogram` work; the verdict is in `extra_info`. Nothing is measured with
`--benchmark-disable` or `--benchmark-skip`.
"""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from bench.api.errors import InputError
from bench.decisions import check
from bench.decisions.check import Outcome
from bench.measure import stats
from bench.measure.limits import Limits
from bench.report.check import line
from bench.tasks import adopt


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

    def __call__(
        self,
        new: str | Path | None = None,
        *,
        pinned: str | Path,
        dataset: str | Path | None = None,
        dims: Sequence[str] = (),
        shapes: Sequence[str] = (),
        trust: bool = False,
        runtime: str | None = None,
        provider: str | None = None,
        batch: int = 1,
        threads: int = 1,
        tolerance: float = check.TOLERANCE,
        max_metric_loss: float = check.MAX_METRIC_LOSS,
        max_launches: int = check.MAX_LAUNCHES,
        budget_s: float = check.BUDGET_S,
    ) -> Outcome:
        """Measure both side by side and fail when the new one is slower by more than the tolerance, or wrong.

        Args:
            new: model file; None with a folder that `bench pick` saved: then the same cell is made anew.
            pinned: model file to compare with, or such a folder.
            dataset: samples of both models, as `bench run --dataset` takes them.
            dims: sizes of dimensions that the models leave open, such as `seq=128`.
            shapes: shapes of inputs, such as `image=1x3x224x224`.
            trust: whether code that the files hold may run.
            runtime: name of the runtime, as in a cell's path; the usual one of the format by default.
            provider: name of the provider, as in a cell's path; the runtime's first one by default.
            tolerance: how much slower the new one may be, as a share.
            max_metric_loss: which share of the pinned one's metric may be lost; without targets, how much error there
                may be in the outputs.
            max_launches: most launches of each.
            budget_s: seconds after which no further launch is begun.

        Raises:
            BenchError: one of them cannot be measured.
        """
        if not self._benchmark.enabled:
            pytest.skip("benchmarks are disabled; --benchmark-enable measures")
        if self._benchmark.stats is not None:
            raise InputError("guard measures once in a test: pytest-benchmark keeps one set of samples for each")
        if new is None:
            pair = check.pair_of_pick(Path(pinned), limits=self._limits)
        else:
            options = adopt.Options(
                dataset=Path(dataset) if dataset else None, dims=tuple(dims), shapes=tuple(shapes), trust=trust
            )
            pair = check.pair_of_files(
                Path(pinned),
                Path(new),
                options=options,
                runtime=runtime,
                provider=provider,
                batch=batch,
                threads=threads,
                limits=self._limits,
            )
        goal = check.goal(tolerance=tolerance, max_launches=max_launches, budget_s=budget_s)
        for note in pair.notes:
            warnings.warn(f"{self._name}: {note}", stacklevel=2)
        outcome = check.measure(pair, goal, check.method(self._limits), max_metric_loss=max_metric_loss)
        self._benchmark.extra_info.update(_told(outcome))
        ends_s = itertools.accumulate((sample / 1e9 for sample in outcome.new_ns), initial=0.0)
        self._times_s = itertools.chain.from_iterable(itertools.pairwise(ends_s))  # a round starts as another ends
        self._benchmark.pedantic(lambda: None, rounds=len(outcome.new_ns))
        if not outcome.passed:
            pytest.fail(line(outcome), pytrace=False)
        if outcome.verdict == stats.UNDECIDED:
            warnings.warn(f"{self._name}: {line(outcome)}", stacklevel=2)
        return outcome


@pytest.fixture
def guard(request: pytest.FixtureRequest) -> Guard:
    """See `Guard`."""
    return Guard(request)


def _told(outcome: Outcome) -> dict[str, Any]:
    """What is kept beside pytest-benchmark's own figures."""
    figures = {**asdict(outcome.quality), **dataclasses.asdict(outcome)}
    names = ("verdict", "ratio", "control", "num_launches", "fidelity", "max_abs_error", "metric_loss")
    return {name: figures[name] for name in names}
