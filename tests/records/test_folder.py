"""The rows that globs choose, and what is said where they choose none."""

from __future__ import annotations

import pytest

from bench.api.errors import InputError
from bench.records import folder
from bench.records.rows import Row


def row(path: str) -> Row:
    fields = dict(zip(("task", "source", "exporter", "variant", "runtime", "provider"), path.split("/"), strict=False))
    return Row(cell=path, batch=1, threads=1, status="ok", **fields)


ROWS = [row(f"{task}/torch/native/raw/pytorch/cpu/b1t1") for task in ("crnn", "albert")]


def test_globs_choose_rows() -> None:
    assert folder.chosen(ROWS, []) == ROWS
    assert folder.chosen(ROWS, ["crnn"]) == folder.chosen(ROWS, ["*/b1t1", "crnn/*"])[:1] == ROWS[:1]


@pytest.mark.parametrize(
    ("glob", "says"),
    [
        ("crnnn/*", "no result matches 'crnnn/*'; did you mean 'crnn'?"),
        ("*/pytorhc/*", "no result matches '*/pytorhc/*'; did you mean 'pytorch'?"),
        ("crnn/*/albert", "no result matches 'crnn/*/albert'; `bench show` lists the cells that have a result"),
    ],
)
def test_glob_that_matches_nothing(glob: str, says: str) -> None:
    with pytest.raises(InputError) as raised:
        folder.chosen(ROWS, [glob])
    assert str(raised.value) == says
