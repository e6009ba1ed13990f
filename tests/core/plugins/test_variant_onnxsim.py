"""onnxsim: passes that are left out where they break a graph."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

from bench.onnxfile import deferred
from bench.onnxfile.edits.opset import opset_of
from bench.pipeline import opening
from bench.plugins import catalog
from bench.plugins.engines import onnxsim_alone
from support import deferred as skips
from support import variant_graphs as graphs

skips.importorskip("onnxsim")


@pytest.fixture
def onnxsim() -> Any:
    """The package as the variant has it, without PyTorch."""
    return onnxsim_alone.onnxsim


@pytest.mark.parametrize("unused", [name for name in onnxsim_alone.UNUSED if importlib.util.find_spec(name)])
def test_what_simplifies_imports_nothing_that_it_does_not_use(unused: str) -> None:
    """onnxsim imports PyTorch and SymPy where they are installed, for more than a second."""
    modules = opening.process(catalog.variant_file("onnxsim"))["modules"]
    code = f"import importlib, sys; [*map(importlib.import_module, {modules!r})]; print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "onnxsim" in ran.stdout.split()
    assert unused not in ran.stdout.split()


def test_a_pass_that_breaks_the_order_of_nodes_is_left_out(
    onnxsim: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxsim 0.8.1 does so with a model of torch.jit of over 80 nodes; small ones are sound."""
    simplify, skipped = onnxsim.simplify, []

    def breaking(*arguments: Any, skipped_optimizers: Any = None, **settings: Any) -> Any:
        skipped.append(skipped_optimizers)
        if skipped_optimizers is None:
            raise RuntimeError("Nodes in a graph must be topologically sorted, however input 'a' of node 'b' is not")
        return simplify(*arguments, skipped_optimizers=skipped_optimizers, **settings)

    monkeypatch.setattr(onnxsim, "simplify", breaking)
    source = graphs.encoder()
    made, info = graphs.apply("onnxsim", source, tmp_path)
    assert skipped == [None, ["eliminate_if_with_const_cond"]]
    assert info == {"skipped": ["eliminate_if_with_const_cond"]}
    assert graphs.largest_error(source, made) < 1e-5


def test_other_errors_of_onnxsim_are_told(onnxsim: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no schema")

    monkeypatch.setattr(onnxsim, "simplify", failing)
    with pytest.raises(RuntimeError, match="no schema"):
        graphs.apply("onnxsim", graphs.encoder(), tmp_path)


def test_a_file_that_states_its_operators_is_given_by_its_path_and_not_loaded_before(
    onnxsim: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simplify, load = onnxsim.simplify, onnx.load
    loaded: list[Path] = []
    given: list[Any] = []

    def loading(path: Any, *arguments: Any, **settings: Any) -> Any:
        loaded.append(Path(path))
        return load(path, *arguments, **settings)

    def simplifying(model: Any, **settings: Any) -> Any:
        given.append((model, list(loaded)))
        return simplify(model, **settings)

    source = graphs.encoder()
    onnx.save(source, path := tmp_path / "source.onnx")
    monkeypatch.setattr(onnx, "load", loading)
    monkeypatch.setattr(deferred.onnx, "load", loading)
    monkeypatch.setattr(onnxsim, "simplify", simplifying)
    variant = catalog.variant("onnxsim").variant
    variant.apply(path, tmp_path / "target.onnx", option="", task=graphs.task_of(source))
    assert given == [(str(path), [])]
    source.opset_import[0].version = 16  # without LayerNormalization
    onnx.save(source, path)
    variant.apply(path, tmp_path / "target.onnx", option="", task=graphs.task_of(graphs.encoder()))
    assert opset_of(given[-1][0]) == 17
    assert path in given[-1][1]
