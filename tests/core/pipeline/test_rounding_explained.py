"""How far outputs differ, what of it rounding explains, and when that is measured anew."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace

from bench.api import Samples, TensorSpec, ragged
from bench.api.cell import Cell
from bench.api.errors import ArtifactError
from bench.api.loss_units import AllowedLoss
from bench.decisions import check
from bench.measure.limits import Limits
from bench.pipeline import code_digests, provenance, quality, rounding, verify
from bench.tasks.metrics import Rmse
from support import records

CELL = Cell.from_path("toy/null/native/raw/null/cpu/b1t1")
LIMITS = Limits.of(step_s=60, memory_bytes=2**31)
ROWS, ZERO = np.arange(1, 9, dtype=np.float32).reshape(4, 2), np.zeros((4, 2), np.float32)


def test_outputs_that_cannot_be_compared_have_no_share() -> None:
    right = {"y": np.ones((2, 3), np.float32), "label": np.array(["a", "b"]), "zero": np.zeros(2, np.float32)}
    same = {"label": np.array(["a", "c"]), "zero": np.zeros(2, np.float32)}
    others = {"label": 0.5, "zero": 0.0}
    assert rounding.shares({"y": np.full((2, 3), "1"), **same}, right) == others
    assert rounding.shares({"y": np.ones(3, np.float32), **same}, right) == {ragged.SHAPES + "y": 1.0, **others}
    found = rounding.shares({"y": right["y"] * np.float32(1.1), **same}, right)
    assert found == {"y": pytest.approx(0.01, rel=1e-3), "label": 0.5, "zero": 0.0}


@pytest.mark.parametrize(
    ("expected", "output", "share"),
    [
        ([0, 0], [0, 1e6], rounding.WORST),
        ([0, 0], [1, 1], rounding.WORST),
        ([0, 0], [0, 0], 0),
        ([1, 2], [1, np.nan], rounding.WORST),
        ([1, np.nan], [1, 2], rounding.WORST),
        ([1, 2], [1, np.inf], rounding.WORST),
        ([1, -np.inf], [1, np.inf], rounding.WORST),
        ([1e-30, 0], [0, 1e30], rounding.WORST),
        ([1, np.nan], [1, np.nan], 0),
        ([1, -np.inf], [1, -np.inf], 0),  # as masks leave it
        ([2, -np.inf], [1, -np.inf], 0.25),
        ([np.nan, np.nan], [np.nan, np.nan], 0),
    ],
)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_an_output_without_a_finite_share_has_the_worst(
    expected: list[float], output: list[float], share: float, kind: type
) -> None:
    found = rounding.shares({"y": np.array([output], kind)}, {"y": np.array([expected], kind)})
    assert found == {"y": share}
    assert json.loads(json.dumps(found, allow_nan=False)) == found


class TwoHeads(Rmse):
    """A task with a judged output and another."""

    judged = "y"
    outputs = (
        TensorSpec(name="y", dtype="float32", shape=("batch", 2)),
        TensorSpec(name="boxes", dtype="float32", shape=("batch", 2)),
    )


@pytest.mark.parametrize(
    ("right", "boxes", "is_wrong"),
    [
        (ZERO, np.full((4, 2), 1e6, np.float32), True),
        (ROWS, np.where(ROWS == 1, np.nan, ROWS).astype(np.float32), True),
        (ROWS, np.where(ROWS == 1, np.inf, ROWS).astype(np.float32), True),
        (ZERO, ZERO, False),
        (ROWS, ROWS * np.float32(1 + 1e-7), False),
    ],
)
def test_an_output_that_was_zero_is_judged(
    right: np.ndarray, boxes: np.ndarray, is_wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = TwoHeads(name="heads", path=Path("task.py"))
    samples = Samples(inputs={"x": ROWS}, targets=list(ROWS + 1))
    made, expected = {"y": ROWS * np.float32(1 + 2e-7), "boxes": boxes}, {"y": ROWS, "boxes": right}
    reference = replace(quality.judge(task, samples, expected, None), precision="float32")
    found = records.quality(fidelity="drifted", precision="float32")
    differing = rounding.shares(made, expected)
    by_rounding: Mapping[str, float] = {"y": 1e-12, "boxes": 0.0}
    judged = rounding.judged(task, found, differing, reference, lambda: by_rounding)
    assert (judged.fidelity == "broken") == is_wrong
    assert not is_wrong or "output boxes is -120.0 dB" in str(judged.reason)
    assert rounding.judged(task, found, differing, reference, lambda: differing) == found, (
        "where rounding does the same"
    )

    monkeypatch.setattr(check.catalog, "task", lambda _: task)
    judged = records.quality(fidelity="drifted" if is_wrong else "close", metric_loss=0.0, metrics={"rmse": 1.0})
    pair = SimpleNamespace(
        pinned=SimpleNamespace(quality=reference),
        new=SimpleNamespace(quality=judged, cell=SimpleNamespace(task="heads")),
        differing=differing,
    )
    fault = check.fault_of(pair, max_metric_loss=AllowedLoss())  # type: ignore[arg-type]
    assert (fault is not None) == is_wrong
    assert fault is None or fault.startswith("output 'boxes' differs by")


@pytest.mark.parametrize("name", ["judged", "explained", "num_runs", "largest"])
def test_the_code_that_judges_rounding_is_part_of_a_judgement(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = provenance.judge_digest(CELL)
    change_code(name, monkeypatch)
    assert provenance.judge_digest(CELL) != before


def change_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the digest of a function be that of other code."""
    of_function = code_digests.of_function
    monkeypatch.setattr(
        code_digests, "of_function", lambda made: f"{of_function(made)}{' changed' * (made.__name__ == name)}"
    )


def test_what_a_cell_claims_is_part_of_a_judgement(monkeypatch: pytest.MonkeyPatch) -> None:
    before = provenance.judge_digest(CELL)
    monkeypatch.setattr(rounding, "claims_nothing_lost", lambda _: False)
    assert provenance.judge_digest(CELL) != before


class Attempts:
    """Counts attempts to make the artifact of a reference, all of which fail."""

    num_made = 0

    def __call__(self, *_: object) -> None:
        self.num_made += 1
        raise ArtifactError("no room")


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Attempts:
    made = Attempts()
    monkeypatch.setattr(verify.prepare, "artifact_of", made)
    monkeypatch.setattr(verify, "_FAILURES", {})
    return made


def reference(digest: str) -> verify.Reference:
    return verify.Reference(cell=CELL, outputs=Path("outputs.npz"), digest=digest, quality=records.QUALITY)


def explain(digest: str, limits: Limits = LIMITS) -> None:
    with pytest.raises(ArtifactError, match="no room"):
        verify._explained(reference(digest), limits)


def test_a_failure_is_kept_for_the_cells_of_a_reference(attempts: Attempts) -> None:
    for _ in range(3):
        explain("one")
    assert attempts.num_made == 1
    explain("other")
    assert attempts.num_made == 2
    explain("one", Limits.of(step_s=90, memory_bytes=2**31))
    assert attempts.num_made == 3, "with more time it may succeed"


@pytest.mark.parametrize("name", ["explained", "num_runs", "largest"])
def test_changed_code_measures_anew(name: str, attempts: Attempts, monkeypatch: pytest.MonkeyPatch) -> None:
    explain("one")
    change_code(name, monkeypatch)
    explain("one")
    assert attempts.num_made == 2
