"""Which change of a comparison is looked into, and what becomes of the answer."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from bench.api.cell import Cell
from bench.api.errors import ArtifactError, InputError
from bench.features.compare import worst
from bench.features.compare.changes import PAIRED, Change, Compared, Side
from bench.measure import stats
from bench.pipeline import slowdown

CELL = "crnn/torch/torch_onnx/raw/{}/cpu/b1t1"


def compared(*verdicts: str, sides: tuple[str, str] = ("onnxruntime", "onnxruntime@1.22.0")) -> Compared:
    rows: list[Any] = [SimpleNamespace(cell=CELL.format(name), status="ok", fidelity="exact") for name in sides]
    changes = [
        Change(cell=f"cell_{at}", before=rows[0], after=rows[1], judged=SimpleNamespace(verdict=verdict))  # type: ignore[arg-type]
        for at, verdict in enumerate(verdicts)
    ]
    side = Side(name="A", machine="m", num_cells=1)
    return Compared(before=side, after=side, how=PAIRED, changes=tuple(changes))


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[slowdown.Question]:
    """The questions that are put, each of which has an answer."""
    put: list[slowdown.Question] = []

    def explained(question: slowdown.Question) -> str:
        put.append(question)
        return "slower by 8.1 %"

    monkeypatch.setattr(slowdown, "explained", explained)
    monkeypatch.setattr(slowdown, "of_cell", lambda cell, limits: SimpleNamespace(cell=cell))
    return put


def test_the_first_slower_cell_is_looked_into(questions: list[slowdown.Question]) -> None:
    answer = worst.blamed(compared(stats.FASTER, stats.SLOWER, stats.SLOWER), tell=lambda _: None)

    (question,) = questions
    assert question.before.cell == Cell.from_path(CELL.format("onnxruntime"))
    assert question.after.cell == Cell.from_path(CELL.format("onnxruntime@1.22.0"))
    assert answer.remarks == ("cell_1: slower by 8.1 %",)


def test_where_none_is_slower_nothing_is_looked_into(questions: list[slowdown.Question]) -> None:
    before = compared(stats.NOISE, stats.FASTER)

    assert worst.blamed(before, tell=lambda _: None) == before
    assert questions == []


def test_one_cell_of_two_folders_cannot_be_measured_beside_itself(questions: list[slowdown.Question]) -> None:
    with pytest.raises(InputError, match="one cell on both sides"):
        worst.blamed(compared(stats.SLOWER, sides=("onnxruntime", "onnxruntime")), tell=lambda _: None)
    assert questions == []


def test_the_comparison_is_not_lost_where_a_side_cannot_be_measured(
    questions: list[slowdown.Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unable(question: slowdown.Question) -> str:
        raise ArtifactError("it crashes")

    monkeypatch.setattr(slowdown, "explained", unable)

    answer = worst.blamed(compared(stats.SLOWER), tell=lambda _: None)

    assert answer.remarks == (f"cell_0: {slowdown.UNTOLD}: it crashes",)


@pytest.mark.parametrize(
    ("is_known", "text"),
    [(True, "slower by 8.1 %"), (False, f"{slowdown.UNTOLD}: no model mine is known here")],
)
def test_a_model_of_ones_own_is_recalled(
    is_known: bool, text: str, questions: list[slowdown.Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    recalled: list[str] = []

    def recall(name: str) -> object:
        recalled.append(name)
        return SimpleNamespace(name=name) if is_known else None

    monkeypatch.setattr(worst.adopt, "recall", recall)
    change = compared(stats.SLOWER)
    rows = [SimpleNamespace(cell=f"mine/onnx/native/{variant}/onnxruntime/cpu/b1t1") for variant in ("raw", "onnxsim")]
    changes = [dataclasses.replace(change.changes[0], before=rows[0], after=rows[1])]  # type: ignore[arg-type]

    answer = worst.blamed(dataclasses.replace(change, changes=tuple(changes)), tell=lambda _: None)

    assert set(recalled) == {"mine"}
    assert len(questions) == is_known
    assert answer.remarks[0].startswith(f"cell_0: {text}")


def test_without_a_feature_that_finds_it_out_the_core_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slowdown.features, "modules", lambda part: [])
    question = dataclasses.replace(
        slowdown.Question(before=None, after=None, names=("a", "b"), budget_s=1.0, limits=None)  # type: ignore[arg-type]
    )

    with pytest.raises(InputError, match="nothing is installed here"):
        slowdown.explained(question)
