"""The recipe of a saved deployment: a damaged one is refused in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bench.api.errors import InputError
from bench.decisions import deployment

CELL = "toy/null/native/raw/null/cpu/b1t1"
SOUND = {
    "cell": CELL,
    "artifact": {"file": "model.json", "format": "null", "sha256": "0"},
    "measured": {"loss": 0.5, "metric": None, "more": [1]},
    "task_folder": None,
}


def test_a_sound_recipe(tmp_path: Path) -> None:
    (tmp_path / deployment.RECIPE).write_text(json.dumps(SOUND))
    recipe = deployment.read(tmp_path)
    assert (recipe.cell.path, recipe.loss, recipe.metric, recipe.place) == (CELL, 0.5, None, None)
    assert recipe.artifact == (tmp_path / "model.json").resolve()


@pytest.mark.parametrize(
    "changed",
    [
        {"cell": "../.."},
        {"cell": 3},
        {"cell": "x" * 9000},
        {"artifact": {**SOUND["artifact"], "file": "../model.json"}},  # type: ignore[dict-item]
        {"artifact": {**SOUND["artifact"], "file": ".."}},  # type: ignore[dict-item]
        {"artifact": {**SOUND["artifact"], "file": ""}},  # type: ignore[dict-item]
        {"artifact": {"file": "model.json"}},
        {"artifact": None},
        {"measured": {"loss": "low", "metric": 1}},
        {"measured": {"loss": 10**400, "metric": 1}},
        {"measured": {"loss": float("nan"), "metric": 1}},
        {"measured": []},
        {"task_folder": 3},
    ],
)
def test_a_recipe_with_a_wrong_field(tmp_path: Path, changed: dict[str, object]) -> None:
    (tmp_path / deployment.RECIPE).write_text(json.dumps({**SOUND, **changed}))
    with pytest.raises(InputError, match=f"{deployment.RECIPE} is not what `bench pick` wrote"):
        deployment.read(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "null", "\x00"])
def test_a_recipe_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / deployment.RECIPE).write_text(text)
    with pytest.raises(InputError, match="is not what `bench pick` wrote") as caught:
        deployment.read(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_pipe_in_the_place_of_a_recipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / deployment.RECIPE)
    with pytest.raises(InputError, match="is a FIFO, not a regular file"):
        deployment.read(tmp_path)
