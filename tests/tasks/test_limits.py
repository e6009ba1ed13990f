"""The limits of a command hold while a model of one's own is opened, sized and adopted."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import onnx
import pytest
from ai_edge_litert import schema_py_generated as schema
from onnx import TensorProto, helper

from bench.api.errors import InputError
from bench.measure.limits import Limits
from bench.pipeline import sizing
from bench.tasks import adopt, ending
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


def endless_tflite(path: Path) -> Path:
    """A TFLite file whose While has a condition that stays true."""
    float32, boolean = schema.TensorType.FLOAT32, schema.TensorType.BOOL
    codes = [schema.BuiltinOperator.WHILE, schema.BuiltinOperator.GREATER_EQUAL, schema.BuiltinOperator.ABS]

    def graph(code: int, name: str, dtype: int, num_inputs: int, **options: Any) -> schema.SubGraphT:
        tensors = [
            schema.TensorT(name=each.encode(), type=kind, shape=[1], buffer=0)
            for each, kind in {"x": float32, name: dtype}.items()
        ]
        node = schema.OperatorT(opcodeIndex=code, inputs=[0] * num_inputs, outputs=[1], **options)
        return schema.SubGraphT(tensors=tensors, inputs=[0], outputs=[1], operators=[node])

    loop = schema.WhileOptionsT(condSubgraphIndex=1, bodySubgraphIndex=2)
    kind = schema.BuiltinOptions.WhileOptions
    graphs = [
        graph(0, "y", float32, 1, builtinOptionsType=kind, builtinOptions=loop),
        graph(1, "goes_on", boolean, 2),
        graph(2, "y", float32, 1),
    ]
    kinds = [schema.OperatorCodeT(builtinCode=code, deprecatedBuiltinCode=code) for code in codes]
    model = schema.ModelT(version=3, operatorCodes=kinds, subgraphs=graphs, buffers=[schema.BufferT()])
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(builder.Output())
    return path


TAKEN_AS_STATED = """
import sys
from pathlib import Path
from bench.tasks.formats import tflite
from bench.tasks.options import Asked
found = tflite.examine(Path(sys.argv[1]), Path(sys.argv[2]), Asked(try_s=0.5))
print([spec.shape for spec in (*found.inputs, *found.outputs)], *found.notes, sep="\\n")
"""


def test_tflite_that_runs_for_ever_is_taken_as_it_states_itself(tmp_path: Path) -> None:
    """In a process of its own, for the run goes on for as long as the process."""
    command = [sys.executable, "-c", TAKEN_AS_STATED, str(endless_tflite(tmp_path / "endless.tflite")), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == [
        "[(1,), (1,)]",
        "no run has checked the sizes of its inputs: it does not run: TimeoutError: its run did not end within 0.5 s",
    ]


FORWARD = """
import time, torch

class Hangs(torch.nn.Module):
    def forward(self, x):
        time.sleep(60)

def build():
    return Hangs()

def example_inputs():
    return {"x": torch.zeros(1, 4)}
"""


def hanging_python(path: Path) -> Path:
    path.with_suffix(".py").write_text(FORWARD)
    return path.with_suffix(".py")


def endless_script(path: Path) -> Path:
    """A TorchScript file whose loop has a condition that stays true."""
    import torch

    class Endless(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            while True:
                x = x + 1
            return x

    torch.jit.script(Endless()).save(str(path.with_suffix(".pt")))
    return path.with_suffix(".pt")


@pytest.mark.framework("torch")
@pytest.mark.parametrize("make", [pytest.param(hanging_python, marks=pytest.mark.thorough), endless_script])
def test_torch_model_that_runs_for_ever_is_refused_at_the_time_limit(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = make(tmp_path / "endless")
    limit_s = 8 if path.suffix == ".py" else 2  # in which a Python file imports PyTorch
    options = adopt.Options(trust=True, shapes=("x=1x4",) if path.suffix == ".pt" else ())
    with pytest.raises(InputError, match=rf"endless\{path.suffix}: no answer within {limit_s} s$"):
        adopt.adopt(path, options, limits=Limits.of(step_s=limit_s, memory_bytes=None))


def test_run_that_ends_in_time_gives_what_it_gave() -> None:
    assert ending.within(60, time.monotonic() + 60, lambda: 3) == 3
    with pytest.raises(KeyError, match="99"):
        ending.within(60, time.monotonic() + 60, lambda: {}[99])
    ran: list[int] = []
    with pytest.raises(TimeoutError, match="did not end within 60 s"):
        ending.within(60, time.monotonic() - 1, lambda: ran.append(1))
    assert ran == [], "nothing is run after the deadline"


@pytest.mark.timing
def test_model_that_runs_for_ever_is_taken_as_it_states_itself(tmp_path: Path) -> None:
    """So that its cells are rows, which say the time limit."""
    (tmp_path / "task").mkdir()
    path, start_s = endless(tmp_path / "endless.onnx"), time.monotonic()
    found = onnx_file.examine(path, tmp_path / "task", Asked(try_s=0.5))
    assert time.monotonic() - start_s < 10
    assert [spec.shape for spec in (*found.inputs, *found.outputs)] == [("n", 4), ("n", 4)]
    assert found.notes == (
        "no run has checked the sizes of its inputs: it does not run with n=1: "
        "TimeoutError: its run did not end within 0.5 s; say its sizes, such as --dim n=SIZE",
    )
