"""The rows that globs choose, and what is said where they choose none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.api.errors import InputError
from bench.measure.comparison import CELL
from bench.records import folder
from bench.records.rows import Row
from support import records as made


def row(path: str) -> Row:
    fields = dict(zip(("task", "source", "exporter", "variant", "runtime", "provider"), path.split("/"), strict=False))
    return Row(cell=path, batch=1, threads=1, status="ok", **fields)


ROWS = [row(f"{task}/torch/native/raw/pytorch/cpu/b1t1") for task in ("crnn", "albert")]


def test_globs_choose_rows() -> None:
    assert folder.chosen(ROWS, []) == ROWS
    assert folder.chosen(ROWS, ["pytorch/*"]) == folder.chosen(ROWS, ["crnn", "albert/pytorch"]) == ROWS
    assert folder.chosen(ROWS, ["albert/pytorch/*"]) == ROWS[1:]
    assert folder.chosen(ROWS, ["crnn"]) == folder.chosen(ROWS, ["*/b1t1", "crnn/*"])[:1] == ROWS[:1]


@pytest.mark.parametrize(
    ("glob", "says"),
    [
        ("crnnn/*", "no result matches 'crnnn/*'; did you mean 'crnn'?"),
        ("crnn.onnx", "no result matches 'crnn.onnx'; did you mean 'crnn'?"),
        ("*/pytorhc/*", "no result matches '*/pytorhc/*'; did you mean 'pytorch'?"),
        (
            "resnet",
            "no result matches 'resnet'; the tasks that have results are crnn, albert; `bench show` lists their cells",
        ),
        ("crnn/*/albert", "no result matches 'crnn/*/albert'; `bench show` lists the cells that have a result"),
    ],
)
def test_glob_that_matches_nothing(glob: str, says: str) -> None:
    with pytest.raises(InputError) as raised:
        folder.chosen(ROWS, [glob])
    assert str(raised.value) == says


def test_sizes_of_a_glob_may_come_in_any_order() -> None:
    rows = [row(f"lm~generate@new={new},prompt=8/torch/native/raw/pytorch/cpu/b1t1") for new in (1, 64)]
    assert folder.chosen(rows, ["lm~generate@prompt=8,new=64"]) == rows[1:]
    assert folder.chosen(rows, ["lm~generate@*"]) == rows


def test_launches_beside_another_cell_may_be_left_out(tmp_path: Path) -> None:
    """As where one search measured cells beside one baseline, and the next search some of them beside another."""
    first, second = made.BASELINE, made.PRUNE
    moved = made.record(
        made.HALVE,
        made.launch("a", CELL, 500),
        made.launch("b", CELL, 1000),
        made.launch("c", CELL, 90, reference=second),
    )
    current = {one.cell.path: one for one in (made.baseline(), made.baseline(second, c=100), moved)}
    store: Any = SimpleNamespace(contents=lambda: SimpleNamespace(current=current, damages=()), folder=tmp_path)

    def ratios(beside: str | None) -> dict[str, float | None]:
        return {row.cell: row.ratio for row in folder.stored(store, beside=beside).rows}

    assert ratios(None)[made.HALVE] == pytest.approx(0.9, rel=0.02), "the last launch says which"
    assert ratios(first)[made.HALVE] == pytest.approx(0.5, rel=0.02)
    assert ratios(second)[made.HALVE] == pytest.approx(0.9, rel=0.02)
    assert ratios(first)[second] is None
