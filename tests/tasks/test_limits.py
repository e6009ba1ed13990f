"""The limits of a command hold while a model of one's own is opened, sized and adopted."""

from __future__ import annotations

import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from bench.api.errors import InputError
from bench.measure.limits import Limits
from bench.pipeline import sizing
from bench.tasks import adopt
from bench.tasks.formats import onnx as onnx_file
from bench.tasks.options import Asked

SHORT = Limits.of(step_s=1, memory_bytes=None)


def endless(path: Path) -> Path:
    """A model whose Loop has no limit of trips and a condition that stays true."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Relu", ["state"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("trip", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, ["n", 4]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, ["n", 4]),
        ],
    )
    true = helper.make_tensor("true", TensorProto.BOOL, [], [True])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", "y")]
    loop = helper.make_node("Loop", ["", "true", "x"], ["y"], body=body)
    graph = helper.make_graph([loop], "g", values[:1], values[1:], [true])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.timing
@pytest.mark.parametrize("how", ["adopt", "sizes"])
def test_file_that_hangs_is_refused_at_the_time_limit(how: str, tmp_path: Path) -> None:
    path = tmp_path / "hangs.py"
    path.write_text("import time; time.sleep(60)")
    start_s = time.monotonic()
    open_ = {
        "adopt": lambda: adopt.adopt(path, limits=SHORT),
        "sizes": lambda: sizing.adopted(path, adopt.Options(), {"tokens": (16, 64)}, SHORT),
    }[how]
    with pytest.raises(InputError, match=r"hangs\.py: no answer within 1 s$"):
        open_()  # not once more with other sizes
    assert 1 <= time.monotonic() - start_s < 6


def test_file_that_takes_too_much_memory_is_refused_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "takes.py"
    path.write_text("taken = bytearray(1 << 30)")
    with pytest.raises(InputError, match=r"takes\.py: .*(MemoryError|out of memory \(limit 0\.5 GiB\))"):
        adopt.adopt(path, limits=Limits.of(step_s=None, memory_bytes=1 << 29))


@pytest.mark.timing
def test_model_that_runs_for_ever_is_taken_as_it_states_itself(tmp_path: Path) -> None:
    """So that its cells are rows, which say the time limit."""
    (tmp_path / "task").mkdir()
    path, start_s = endless(tmp_path / "endless.onnx"), time.monotonic()
    found = onnx_file.examine(path, tmp_path / "task", Asked(try_s=0.5))
    assert time.monotonic() - start_s < 10
    assert [spec.shape for spec in (*found.inputs, *found.outputs)] == [("n", 4), ("n", 4)]
    assert found.notes == (
        "it could not be tried here, so no size was checked: it does not run with n=1: "
        "TimeoutError: its run did not end within 0.5 s; say its sizes, such as --dim n=SIZE",
    )
