"""ONNX Runtime from bytes and with I/O binding: checks beyond the contract that all runtimes keep."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from bench.api import UNKNOWN, Session, TensorSpec
from bench.api.names import ProviderName
from bench.plugins import catalog
from bench.plugins.engines.onnxruntime.providers import ONE_NODE

RUNTIMES = ("onnxruntime", "onnxruntime_bytes", "onnxruntime_iobinding")


def open_nonzero(runtime: str, folder: Path) -> Session:
    """Indices of the numbers in `x` that are not zero: how many, depends on the numbers, not on their shape."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch"])
    y = helper.make_tensor_value_info("y", TensorProto.INT64, [1, None])
    graph = helper.make_graph([helper.make_node("NonZero", ["x"], ["y"])], "graph", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    task = SimpleNamespace(
        request=None,
        inputs=(TensorSpec(name="x", dtype="float32", shape=("batch",)),),
        outputs=(TensorSpec(name="y", dtype="int64", shape=(1, UNKNOWN)),),
    )
    return catalog.runtime(runtime).open(path, task=task, source="onnx", provider="cpu", threads=1)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_outputs_may_differ_in_size_from_one_request_to_the_next(runtime: str, tmp_path: Path) -> None:
    session = open_nonzero(runtime, tmp_path)
    for numbers, expected in ([0, 1, 1], [1, 2]), ([1, 1, 1], [0, 1, 2]), ([0, 0, 0], []), ([1, 0, 0, 1], [0, 3]):
        (y,) = session.run({"x": np.array(numbers, np.float32)})
        assert y.tolist() == [expected]


def test_bytes_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x08")
    assert catalog.runtime("onnxruntime_bytes").model(path) == b"\x08\x08"
    assert catalog.runtime("onnxruntime").model(path) == path


def test_bound_outputs_are_written_to_the_same_memory_again(tmp_path: Path) -> None:
    """The point of binding; the outputs of another shape lie elsewhere."""
    source = catalog.runtime("onnxruntime_iobinding")
    path = tmp_path / "double.onnx"
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in ("x", "y"))
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "graph", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    session = source.open(path, task=catalog.task("toy"), source="null", provider="cpu", threads=1)

    (first,) = session.run({"x": np.ones((2, 8), np.float32)})
    address = first.__array_interface__["data"]
    (second,) = session.run({"x": np.full((2, 8), 3, np.float32)})
    (third,) = session.run({"x": np.ones((5, 8), np.float32)})

    assert second.__array_interface__["data"] == address
    assert third.tolist() == [[2.0] * 8] * 5
    assert first.tolist() == [[6.0] * 8] * 2


@pytest.mark.parametrize("threads", [1, 2])
def test_options_reach_the_session_and_the_code_of_a_deployment(
    threads: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each option by what ONNX Runtime itself says of the session, opened here and by the code that is shipped."""
    import onnxruntime

    made = []

    class Options(onnxruntime.SessionOptions):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(onnxruntime, "SessionOptions", Options)
    source = catalog.runtime("onnxruntime")
    provider = str(ProviderName("cpu").with_options(source.options))
    path = tmp_path / "model.onnx"
    path.write_bytes(ONE_NODE)
    session = source.open(
        path, task=SimpleNamespace(outputs=(), request=None), source="onnx", provider=provider, threads=threads
    )
    code: dict[str, Any] = {}
    exec(source.code(provider=provider, threads=threads), code)
    code["load"](path, ["y"])
    opened = [session._run.__self__.get_session_options(), made[-1]]
    levels = onnxruntime.GraphOptimizationLevel
    for options in opened:
        assert options.intra_op_num_threads == threads
        if threads > 1:  # one thread has none to wait for
            assert options.get_session_config_entry("session.force_spinning_stop") == "1"
        assert options.get_session_config_entry("session.set_denormal_as_zero") == "1"
        assert options.get_session_config_entry("optimization.enable_gelu_approximation") == "1"
        assert options.get_session_config_entry("session.disable_prepacking") == "1"
        assert not options.enable_cpu_mem_arena
        assert options.graph_optimization_level == levels.ORT_ENABLE_EXTENDED
