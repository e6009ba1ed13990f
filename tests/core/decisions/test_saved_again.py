"""A pick is saved in a folder that has files already: only what an earlier pick wrote is replaced or removed."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.api import cache
from bench.api.artifact import Artifact
from bench.api.errors import InputError
from bench.decisions import deployment
from bench.measure.limits import Limits
from bench.plugins import catalog
from bench.records import assemble
from bench.records.store import Record
from support import records as made

CELL = "toy/null/native/raw/null/cpu/b1t1"
THESIS = b"my thesis"


@pytest.fixture
def save(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[Path]]:
    """Save a pick whose artifact has such a content and such an ending of its name."""
    record = made.with_artifact(made.baseline(CELL, a=1))
    (row,) = assemble.rows({CELL: record})
    source = tmp_path / "source"
    source.mkdir()

    def save(
        folder: Path, content: bytes = b"an artifact", suffix: str = ".onnx", record: Record = record
    ) -> list[Path]:
        path = source / f"made{suffix}"
        path.write_bytes(content)
        artifact = Artifact(format="onnx", sha256=cache.file_digest(path), size_bytes=len(content), path=path)
        monkeypatch.setattr(deployment, "task_of", lambda _: catalog.task("toy"))
        monkeypatch.setattr(deployment, "measured_steps", lambda *_: [artifact])
        return deployment.save(folder, row, record, request={}, limits=Limits.of(step_s=None, memory_bytes=None))

    return save


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def change(folder: Path, **artifact: Any) -> None:
    """Let the recipe name another artifact."""
    path = folder / deployment.RECIPE
    recipe = json.loads(path.read_text())
    recipe["artifact"] |= artifact
    path.write_text(json.dumps(recipe))


def test_stored_versions_are_text_in_the_program(save: Any, tmp_path: Path) -> None:
    """They may have come from elsewhere with the results."""
    hostile = {"onnx": '1"""\nimport os\nos.remove("x")\n"""', 'a"""': "2\\"}
    found = made.with_artifact(made.baseline(CELL, a=1))
    save(
        tmp_path / "pick",
        record=dataclasses.replace(found, header=msgspec.structs.replace(found.header, versions=hostile)),
    )
    tree = ast.parse((tmp_path / "pick" / "run.py").read_text())
    assert not any(isinstance(node, ast.Import) and node.names[0].name == "os" for node in ast.walk(tree))
    assert (ast.get_docstring(tree) or "").count('"""') == 3


def test_a_pick_replaces_an_earlier_one_and_removes_its_artifact(save: Any, tmp_path: Path) -> None:
    folder = tmp_path / "pick"
    save(folder)
    save(folder, b"a larger artifact")
    assert held(folder)["model.onnx"] == b"a larger artifact"

    (folder / "notes.txt").write_bytes(THESIS)
    save(folder, b"of another format", ".tflite")

    assert sorted(held(folder)) == ["deployment.json", "model.tflite", "notes.txt", "run.py"]
    assert deployment.read(folder).sha256 == cache.file_digest(folder / "model.tflite")


def test_the_same_pick_goes_on_where_it_was_stopped(save: Any, tmp_path: Path) -> None:
    folder = tmp_path / "pick"
    save(folder)
    (folder / deployment.RECIPE).unlink()

    save(folder)

    assert sorted(held(folder)) == ["deployment.json", "model.onnx", "run.py"]


@pytest.mark.parametrize("name", ["thesis.tex", "run.py", "deployment.json", "model.tar.gz", "model"])
def test_a_file_that_a_recipe_names_stays(save: Any, tmp_path: Path, name: str) -> None:
    """Whatever digest it states: a pick names its artifact `model` and an ending."""
    folder = tmp_path / "pick"
    save(folder)
    (folder / "thesis.tex").write_bytes(THESIS)
    (folder / "model.tar.gz").write_bytes(THESIS)
    (folder / "model").mkdir()
    digest = "0" if name == "model" else cache.file_digest(folder / name)
    change(folder, file=name, sha256=digest)
    (folder / "model.onnx").unlink()

    save(folder, b"another")

    assert held(folder) | {"thesis.tex": THESIS, "model.tar.gz": THESIS} == held(folder)
    assert (folder / "model").is_dir()


@pytest.mark.parametrize("name", ["../thesis.tex", "/thesis.tex", "..", "", "a/../../thesis.tex"])
def test_a_recipe_that_names_no_file_of_its_folder_is_refused(save: Any, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "pick"
    (tmp_path / "thesis.tex").write_bytes(THESIS)
    save(folder)
    change(folder, file=name, sha256=cache.file_digest(tmp_path / "thesis.tex"))
    before = held(folder)

    with pytest.raises(InputError, match="is not what `bench pick` wrote"):
        save(folder, b"another")

    assert held(folder) == before
    assert (tmp_path / "thesis.tex").read_bytes() == THESIS


def test_an_artifact_that_changed_since_stays(save: Any, tmp_path: Path) -> None:
    folder = tmp_path / "pick"
    save(folder)
    (folder / "model.onnx").write_bytes(THESIS)
    before = held(folder)

    with pytest.raises(InputError, match=r"model\.onnx is there, and not as a pick wrote it: it is left as it is"):
        save(folder, b"another")
    assert held(folder) == before

    save(folder, b"another", ".tflite")
    assert held(folder)["model.onnx"] == THESIS


def test_what_a_link_names_stays(save: Any, tmp_path: Path) -> None:
    folder, thesis = tmp_path / "pick", tmp_path / "pick" / "thesis.tex"
    save(folder)
    thesis.write_bytes(THESIS)
    (folder / "model.onnx").unlink()
    (folder / "model.onnx").symlink_to(thesis)
    change(folder, sha256=cache.file_digest(thesis))

    with pytest.raises(InputError, match="is a symbolic link"):
        save(folder, b"another")
    save(folder, b"another", ".tflite")

    assert thesis.read_bytes() == THESIS
    assert (folder / "model.onnx").is_symlink()


def test_files_of_the_user_are_not_replaced(save: Any, tmp_path: Path) -> None:
    for name in ("model.onnx", "run.py", "deployment.json"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_bytes(THESIS)

        with pytest.raises(InputError, match=f"{name} is (there, and not as|not what)"):
            save(folder)

        assert held(folder) == {name: THESIS}


def test_a_program_that_was_changed_stays(save: Any, tmp_path: Path) -> None:
    folder = tmp_path / "pick"
    save(folder)
    with (folder / "run.py").open("a") as file:
        file.write("# mine\n")

    with pytest.raises(InputError, match=r"run\.py is there, and not as a pick wrote it"):
        save(folder, b"another")
    assert held(folder)["model.onnx"] == b"an artifact"


def test_a_pick_of_an_earlier_version_is_replaced_and_no_program_of_the_user(save: Any, tmp_path: Path) -> None:
    """Its recipe has no digest of the program."""
    folder = tmp_path / "pick"
    save(folder)
    recipe = json.loads((folder / deployment.RECIPE).read_text())
    del recipe["program"]
    (folder / deployment.RECIPE).write_text(json.dumps(recipe))
    (folder / "run.py").write_text((folder / "run.py").read_text() + "\n")

    save(folder, b"another")
    assert held(folder)["model.onnx"] == b"another"

    (folder / deployment.RECIPE).write_text(json.dumps(recipe | {"artifact": _now(folder)}))
    (folder / "run.py").write_text("print('mine')\n")
    with pytest.raises(InputError, match=r"run\.py is there"):
        save(folder, b"a third")


def _now(folder: Path) -> dict[str, Any]:
    artifact: dict[str, Any] = json.loads((folder / deployment.RECIPE).read_text())["artifact"]
    return artifact


@pytest.mark.timeout(10)
def test_what_is_no_regular_file_is_refused(save: Any, tmp_path: Path) -> None:
    folder = tmp_path / "pick"
    folder.mkdir()
    os.mkfifo(folder / "run.py")
    with pytest.raises(InputError, match="is a FIFO"):
        save(folder)
    (folder / "run.py").unlink()

    (folder / "model.onnx").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        save(folder)
    assert [path.name for path in folder.iterdir()] == ["model.onnx"]
