"""Models of formats that name their imports are opened in forks of one process that has made these imports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from bench.measure import namespaces
from bench.measure.process import Child, thread_environment
from bench.measure.templates import Forked
from bench.tasks import adopt, examine, formats
from support.small_models import make_model

pytestmark = pytest.mark.skipif(
    not namespaces.can_be_apart(), reason="this system gives workers no namespaces of their own"
)
NAMED = {name: found.imports for name, found in formats.known().items() if found.imports}


def test_a_second_model_finds_the_packages_imported(
    plugin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forks: list[Any] = []
    fork = Child._forked

    def noted(child: Child, *given: Any) -> Any:
        forks.append(fork(child, *given))
        return forks[-1]

    monkeypatch.setattr(Child, "_forked", noted)
    for name in ("one", "two"):
        onnx.save(make_model(), tmp_path / f"{name}.onnx")
        assert adopt.adopt(tmp_path / f"{name}.onnx").name == name
    first, second = forks
    assert first._template is second._template


def test_imports_of_onnx_are_named() -> None:
    assert "onnxruntime" in NAMED["onnx"]


@pytest.mark.thorough
@pytest.mark.framework
@pytest.mark.parametrize("name", NAMED)
def test_the_imports_of_a_format_start_no_threads(name: str) -> None:
    with Child(
        environment=thread_environment(1), modules=(examine.__name__, *NAMED[name], f"{formats.__name__}.{name}")
    ) as child:
        assert isinstance(child._process, Forked)
