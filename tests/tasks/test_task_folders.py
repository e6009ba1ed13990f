"""A folder with a task of its own becomes a task, and the names that tasks get."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from bench.api import cache
from bench.api.errors import InputError
from bench.pipeline import provenance
from bench.plugins import catalog
from bench.tasks import adopt
from support.hub_fixtures import Fetched
from support.hub_server import StandIn, commit
from support.small_models import make_model


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


def test_a_file_of_ones_own_is_a_part_of_the_task_whatever_its_name(plugin_folder: Path, tmp_path: Path) -> None:
    """The code of the task may read it; where a model was fetched from is told by the cache alone."""
    folder = tmp_path / "mine"
    folder.mkdir()
    toy = catalog.task("toy").folder
    for file in ("task.py", "weights.json"):
        (folder / file).write_bytes((toy / file).read_bytes())
    name = adopt.adopt(folder).name
    digests = []
    for text in ("hf:org/net@main:model.onnx", "other"):
        for place in (folder, tmp_path, cache.folder()):
            (place / adopt.ORIGIN).write_text(text)
        provenance.task_digest.cache_clear()
        digests.append(provenance.task_digest(catalog.task(name)))
        assert adopt.origin_of(catalog.task(name)) is None
        assert adopt.origin_of(catalog.task("toy")) is None
    provenance.task_digest.cache_clear()
    assert digests[0] != digests[1]


def test_where_a_model_was_fetched_from_is_told_and_no_part_of_the_task(
    plugin_folder: Path, hub: StandIn, fetched: Fetched, tmp_path: Path
) -> None:
    model = tmp_path / "net.onnx"
    onnx.save(make_model(), model)
    found = []
    for number in (1, 2):
        hub.add("org/net", {"net.onnx": model.read_bytes(), "README.md": bytes([number])}, number=number)
        task = catalog.task(adopt.adopt(fetched("hf:org/net")).name)
        assert adopt.origin_of(task) == f"hf:org/net@{commit(number)}:net.onnx"
        found.append((task.folder, provenance.task_digest(task)))
    task = catalog.task(adopt.adopt(model).name)
    assert adopt.origin_of(task) is None
    found.append((task.folder, provenance.task_digest(task)))
    assert len({folder for folder, _ in found}) == 3
    assert len({digest for _, digest in found}) == 1, "no figure depends on it"


def test_a_task_that_lacks_something(plugin_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(
        "from bench.tasks.formats.onnx import OnnxTask\n\nclass Mine(OnnxTask):\n    outputs = ()\n"
    )
    with pytest.raises(InputError, match="Mine does not define inputs"):
        adopt.adopt(tmp_path)
