"""Verification in looks: which samples run, when it ends, and that the figures are those of the whole split."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET

from bench.api import Arrays, Outputs, Points, Samples, Task, TensorSpec
from bench.pipeline import feeding, looks, quality
from bench.pipeline.looks import GATE, Until
from bench.records.lines import Quality
from bench.records.metric_loss import Lost

NUM = 1000
RIGHT = 0.9
"""The accuracy of the reference."""
ORDER = feeding.drawn(NUM)


class Signs(Task):
    """Whether a number is above zero; one row in ten has the wrong target."""

    sources = ("null",)
    inputs = (TensorSpec(name="x", dtype="float32", shape=("batch",)),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch",)),)
    metric_name = "accuracy"
    close = 1e-3
    max_metric_loss = 0.05
    has_points = True
    counted: Sequence[int] | None = None

    def build(self, source: str, weights: Path) -> Any:
        raise NotImplementedError

    def samples(self, split: str) -> Samples:
        raise NotImplementedError

    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        return float(np.abs(outputs["y"]).mean())

    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        return {"accuracy": float(self._right(outputs, targets).mean()), "mean": float(outputs["y"].mean())}

    def points(self, outputs: Arrays, targets: Sequence[Any]) -> Points | str:
        if not self.has_points:
            return "it has none"
        right = self._right(outputs, targets)
        right = right if self.counted is None else right[list(self.counted)]
        return Points(values=right, score=float(right.mean()), most=1.0, rows=self.counted)

    def _right(self, outputs: Arrays, targets: Sequence[Any]) -> np.ndarray:
        return ((outputs["y"] > 0) == np.array(targets)).astype(np.float64)


class Runs:
    """A cell that changes the outputs of some rows, and notes the sizes of its inferences."""

    def __init__(self, change: Mapping[int, float]) -> None:
        self.change, self.batches, self.rows = change, [], []  # type: ignore[var-annotated]

    def __call__(self, feeds: Arrays) -> Outputs:
        rows = [round(abs(float(x))) for x in feeds["x"]]
        self.batches.append(len(rows))
        self.rows += rows
        return [np.array([self.change.get(row, float(x)) for row, x in zip(rows, feeds["x"], strict=True)], np.float32)]


def split(num: int = NUM) -> tuple[Samples, dict[str, np.ndarray]]:
    """Rows 1, -2, 3, ... whose magnitude tells which they are, and the reference's outputs, which are the inputs."""
    x = (np.arange(num) * np.where(np.arange(num) % 2, -1, 1)).astype(np.float32)
    x[0] = 1e-3
    targets = [bool(value > 0) != (row % 10 == 5) for row, value in enumerate(x)]
    return Samples(inputs={"x": x}, targets=targets), {"y": x}


def verified(
    until: Until,
    change: Mapping[int, float] | None = None,
    *,
    num: int = NUM,
    batch: int = 1,
    begun: Arrays | None = None,
    **task: Any,
) -> tuple[Runs, dict[str, np.ndarray], quality.Part | None, Quality, Quality]:
    made = type("Made", (Signs,), task)(name="signs", path=Path("task.py"))
    samples, expected = split(num)
    reference = quality.judge(made, samples, expected, None)
    runs = Runs(change or {})
    outputs, part, judged = looks.run(
        runs, made, samples, expected, batch, until, reference=reference, precision="float32", begun=begun
    )
    return runs, outputs, part, judged, reference


def lost(judged: Quality) -> Lost:
    assert isinstance(judged.lost, Lost)
    return judged.lost


def wrong(*rows: int) -> dict[int, float]:
    """Changes by which rows whose answer is right become wrong."""
    samples, expected = split()
    assert all((expected["y"][row] > 0) == samples.targets[row] for row in rows)  # type: ignore[index]
    return {row: -float(expected["y"][row]) for row in rows}


def right_rows(start: int, end: int) -> list[int]:
    """Rows of the drawn order from one place to another whose answer is right."""
    return [row for row in ORDER[start:end] if row % 10 != 5 and row > 0]


def test_first_samples_alone_run_where_nothing_else_is_wanted() -> None:
    runs, outputs, part, judged, reference = verified(Until())
    assert runs.rows == ORDER[:GATE]
    assert part is not None
    assert (list(part.rows), len(outputs["y"]), judged.num_samples) == (ORDER[:GATE], GATE, GATE)
    assert (judged.metrics, judged.loss) == (reference.metrics, reference.loss), "all digits of the whole split"
    assert judged.fidelity == "exact"
    assert 0.05 < lost(judged).high() < 0.1, "a wide bound"


@pytest.mark.parametrize(("limit", "num"), [(0.01, 522), (0.05, 103), (0.004, NUM), (0.2, GATE)])
def test_samples_run_until_a_loss_of_nothing_is_within_the_limit(limit: float, num: int) -> None:
    """As many as make a loss of `limit` of 0.9 points unlikely to stay unseen: log(0.009) / log(1 - 0.9 limit)."""
    runs, _, _, judged, reference = verified(Until(limit=limit))
    assert sorted(runs.rows) == sorted(ORDER[:num])
    assert judged.is_whole == (num == NUM)
    assert lost(judged).high() <= limit
    assert judged.metrics == reference.metrics


def test_cells_that_share_the_probability_of_error_take_more_samples() -> None:
    """Of two of which one is shipped: log(0.0045) / log(1 - 0.009)."""
    runs, _, _, judged, _ = verified(Until(limit=0.01, alpha=0.025))
    assert len(runs.rows) == 598
    assert lost(judged).high(alpha=0.025) <= 0.01
    assert not Until(limit=0.01, alpha=0.025).is_met(verified(Until(limit=0.01))[3])


@pytest.mark.parametrize("place", [0, GATE - 1, GATE, 300])
def test_a_sample_that_loses_something_takes_the_whole_split(place: int) -> None:
    (row, *_) = right_rows(place, place + 20)
    runs, outputs, part, judged, _ = verified(Until(limit=0.01), wrong(row))
    assert (sorted(runs.rows), part, judged.is_whole) == ([*range(NUM)], None, True)
    assert outputs["y"][row] == -reference_output(row), "in the order of the split"
    assert lost(judged).points == ((row, 1.0),)
    assert lost(judged).of == NUM
    assert judged.metrics is not None
    assert judged.metrics["accuracy"] == pytest.approx(RIGHT - 1 / NUM)


def reference_output(row: int) -> float:
    return float(split()[1]["y"][row])


def test_a_part_has_the_figures_of_the_reference_and_the_mean_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "ESTIMATE_S", 0)
    rows = right_rows(0, GATE)[:2]
    _, _, part, judged, _ = verified(Until(), wrong(*rows))
    assert part is not None
    assert judged.metrics == {"accuracy": pytest.approx(RIGHT - 2 / GATE), "mean": None}
    assert judged.metric_loss == pytest.approx(2 / GATE / RIGHT)
    assert sorted(place for place, _ in lost(judged).points) == sorted(ORDER.index(row) for row in rows)
    assert lost(judged).high() > 0.1


@pytest.mark.parametrize(("seconds", "num"), [(0.0, GATE), (0.5, 2 * GATE), (1.5, 4 * GATE), (9.0, NUM)])
def test_a_metric_that_is_an_estimate_gets_more_samples_for_a_while(
    seconds: float, num: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "GATE_S", 100)
    clock = iter(range(100))
    monkeypatch.setattr(looks.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(looks, "ESTIMATE_S", seconds)
    runs, _, _, judged, _ = verified(Until(), wrong(right_rows(0, GATE)[0]))
    assert len(runs.rows) == num
    assert judged.is_whole == (num == NUM)


def values(_: Task, outputs: Arrays, targets: Sequence[Any]) -> Points:
    return Points(values=outputs["y"].astype(np.float64), score=1.0, most=1e9)


@pytest.mark.parametrize(("each_s", "num"), [(0.001, NUM), (1.0, GATE)])
def test_where_rounding_changed_the_metric_the_whole_split_tells_it(
    each_s: float, num: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the rest of the samples would take long: the mean of the outputs has other last digits."""
    clock = itertools.count()
    monkeypatch.setattr(looks, "GATE_S", 100 * each_s)
    monkeypatch.setattr(looks, "ESTIMATE_S", 0)
    monkeypatch.setattr(looks.time, "monotonic", lambda: each_s * GATE / 4 * next(clock))
    change = {
        row: float(np.float32((row or 1e-3) * (-1 if row % 2 else 1)) * np.float32(1 + 1e-6)) for row in range(NUM)
    }
    runs, _, _, judged, _ = verified(Until(), change, metric_name="mean", points=values)
    assert (judged.fidelity, len(runs.rows), judged.is_whole) == ("close", num, num == NUM)


@pytest.mark.parametrize(("seconds", "num"), [(0.0, looks.FEWEST), (1.5, 2 * looks.FEWEST), (9.0, GATE)])
def test_slow_cells_run_fewer_samples_first(seconds: float, num: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(looks.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(looks, "GATE_S", seconds)
    runs, _, part, judged, reference = verified(Until())
    assert part is not None
    assert (runs.rows, judged.num_samples) == (ORDER[:num], num)
    assert judged.metrics == reference.metrics


def test_outputs_that_are_no_numbers_end_at_once() -> None:
    runs, _, _, judged, _ = verified(Until(limit=0.01), {ORDER[3]: float("nan")})
    assert len(runs.rows) == GATE
    assert (judged.fidelity, judged.metrics, judged.num_samples) == ("broken", None, GATE)


@pytest.mark.parametrize("limit", [None, 0.01])
def test_a_few_samples_do_not_tell_that_the_metric_is_broken(limit: float | None) -> None:
    rows = right_rows(0, GATE)[:5]  # 8 % of the first samples, half a per cent of the split
    runs, _, part, judged, _ = verified(Until(limit=limit), wrong(*rows))
    assert (len(runs.rows), part, judged.fidelity) == (NUM, None, "drifted")


def test_the_whole_split_tells_that_the_metric_is_broken() -> None:
    _, _, part, judged, _ = verified(Until(), wrong(*right_rows(0, NUM)[:60]))
    assert (part, judged.fidelity) == (None, "broken")


def test_without_points_the_whole_split_runs() -> None:
    runs, _, part, judged, _ = verified(Until(), has_points=False)
    assert (len(runs.rows), part, judged.is_whole, judged.lost) == (NUM, None, True, "it has none")


def test_samples_that_do_not_count_for_the_metric_are_run_and_not_counted() -> None:
    counted = [row for row in range(NUM) if row % 4]
    runs, _, part, judged, _ = verified(Until(limit=0.05), counted=counted)
    found = lost(judged)
    assert part is not None
    assert found.of == len(counted)
    assert found.num_samples == len({*part.rows} & {*counted})
    assert found.high() <= 0.05
    assert len(runs.rows) < 180


@pytest.mark.parametrize("num", [1, 7, GATE])
def test_a_short_split_runs_whole(num: int) -> None:
    runs, outputs, part, judged, _ = verified(Until(), num=num)
    assert (sorted(runs.rows), part, judged.is_whole) == ([*range(num)], None, True)
    assert outputs["y"].tolist() == split(num)[1]["y"].tolist()
    assert lost(judged).of is UNSET, "the bound of a split that just ran: there was no look before"


def test_equal_answers_have_the_figures_of_the_whole_split_where_a_part_has_none() -> None:
    class Rare(Signs):
        def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
            found = super().metrics(outputs, targets)
            return {**found, "rare": found["mean"] if len(targets) == NUM else float("nan")}

    made = Rare(name="signs", path=Path("task.py"))
    samples, expected = split()
    reference = quality.judge(made, samples, expected, None)
    _, part, judged = looks.run(Runs({}), made, samples, expected, 1, Until(), reference=reference, precision="float32")
    assert part is not None
    assert judged.metrics == reference.metrics
    assert None not in (judged.metrics or {}).values()


def test_a_limit_of_nothing_takes_the_whole_split() -> None:
    runs, _, part, judged, _ = verified(Until(limit=0.0))
    assert (len(runs.rows), part, lost(judged).of) == (NUM, None, NUM)


def test_batches_are_whole_until_the_split_ends() -> None:
    runs, _, part, _, _ = verified(Until(), batch=24)
    assert runs.batches == [24] * 3
    assert part is not None
    assert len(part.rows) == 72


@pytest.mark.parametrize("change", [{}, wrong(right_rows(0, 20)[0]), wrong(right_rows(70, 90)[0])])
@pytest.mark.parametrize(("first", "then"), [(None, 0.01), (0.05, 0.01), (0.05, 0.001)])
def test_a_stricter_limit_goes_on_where_the_samples_ended(
    change: dict[int, float], first: float | None, then: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "ESTIMATE_S", 0)
    _, outputs, part, _, _ = verified(Until(limit=first), change)
    runs, whole, _, judged, _ = verified(Until(limit=then), change, begun=outputs if part else None)
    alone, expected, _, at_once, _ = verified(Until(limit=then), change)
    ran = len(part.rows) if part else 0
    assert (runs.rows, judged) == (alone.rows[ran:], at_once)
    assert whole["y"].tolist() == expected["y"].tolist()


@pytest.mark.parametrize(
    ("made", "until", "is_enough"),
    [
        (lambda: verified(Until())[3], Until(), True),
        (lambda: verified(Until())[3], Until(limit=0.01), False),
        (lambda: verified(Until())[3], Until(limit=0.2), True),
        (lambda: verified(Until(limit=0.01))[3], Until(limit=0.01), True),
        (lambda: verified(Until(limit=0.01))[3], Until(limit=0.005), False),
        (lambda: verified(Until(limit=0.001))[3], Until(limit=1e-9), True),
    ],
)
def test_a_stored_quality_is_enough_where_it_tells_what_is_wanted(
    made: Callable[[], Quality], until: Until, is_enough: bool
) -> None:
    assert until.is_met(made()) == is_enough
