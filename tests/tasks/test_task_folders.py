"""A folder with a task of its own becomes a task, and the names that tasks get."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.api.errors import InputError
from bench.plugins import catalog
from bench.tasks import adopt


@pytest.mark.parametrize(
    ("stem", "name"),
    [("__init__", "init"), ("..a+b", "a_b"), ("模型", "model"), ("toy", "toy_own"), ("x" * 200, "x" * 60)],
)
def test_names_are_parts_of_a_cell_path(stem: str, name: str, plugin_folder: Path, tmp_path: Path) -> None:
    assert adopt._name(stem) == name


def test_a_folder_becomes_a_task(plugin_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "my task"
    folder.mkdir()
    toy = catalog.task("toy").folder
    for file in ("task.py", "weights.json"):
        (folder / file).write_bytes((toy / file).read_bytes())
    assert adopt.adopt(folder).name == "my_task"
    assert catalog.task("my_task").folder.resolve() == folder
    assert adopt.adopt(folder).name == "my_task"
    assert adopt.adopt(toy).name == "toy", "it is on the search path already"
    assert catalog.task("toy").folder == toy


def test_a_task_that_lacks_something(plugin_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(
        "from bench.tasks.formats.onnx import OnnxTask\n\nclass Mine(OnnxTask):\n    outputs = ()\n"
    )
    with pytest.raises(InputError, match="Mine does not define inputs"):
        adopt.adopt(tmp_path)
