"""The requests that the pipeline sends to workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.api.arrays import save_arrays
from bench.api.errors import InputError
from bench.measure.process import ask_once
from bench.pipeline import operations
from bench.plugins import catalog

TASK = '''
"""The toy task with a model of its own."""

from bench.plugins.models.toy.task import Toy


class Own(Toy):
    pass
'''
MODEL = """
import pathlib
pathlib.Path(__file__).with_name("imported").touch()
"""
RUNTIME = '''
"""The null runtime; it builds the model of artifacts that are named so."""

from bench.plugins.runtimes.null import NullRuntime


class Building(NullRuntime):
    default_for = ()

    def builds(self, artifact):
        return artifact.stem == "built"
'''


@pytest.mark.parametrize(("artifact", "is_imported"), [("built.null", True), ("exported.null", False)])
def test_imports_what_builds_the_model_only_where_the_runtime_builds_it(
    plugin_folder: Path, artifact: str, is_imported: bool
) -> None:
    files = {"models/own/task.py": TASK, "models/own/null_model.py": MODEL, "runtimes/building.py": RUNTIME}
    for name, text in files.items():
        (plugin_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (plugin_folder / name).write_text(text)
    catalog.forget()
    found = ask_once(
        operations.import_packages,
        timeout_s=30,
        memory_bytes=None,
        cell="own/null/native/raw/building/cpu/b1t1",
        artifact=str(plugin_folder / artifact),
    )
    assert found["import_ns"] > 0
    assert (plugin_folder / "models/own/imported").exists() == is_imported


@pytest.mark.parametrize(
    ("request_", "more"),
    [
        (operations.open_session, {}),
        (operations.run_split, {"save_outputs": "made.npz"}),
    ],
)
def test_nothing_is_opened_on_a_provider_that_is_not_there(
    request_: Callable[..., object], more: dict[str, object], tmp_path: Path
) -> None:
    (tmp_path / "toy.null").write_text('{"rounds": 1, "scale": 2.0}')
    inputs = tmp_path / "inputs.npz"
    save_arrays(inputs, catalog.task("toy").samples("test").inputs)
    with pytest.raises(InputError, match="null has no provider 'gpu' here"):
        request_(
            cell="toy/null/native/raw/null/gpu/b1t1", artifact=str(tmp_path / "toy.null"), inputs=str(inputs), **more
        )
