"""LiteRT, formerly TensorFlow Lite: its interpreter with the XNNPACK delegate, which is its default on processors."""

import functools
from pathlib import Path
from typing import Any

from bench.api import Arrays, Outputs, Runtime, Session, Task
from bench.api.errors import ArtifactError
from bench.plugins.engines.litert import ports

CODE = """\
from ai_edge_litert.interpreter import Interpreter


def load(path, outputs):
    interpreter = Interpreter(str(path), num_threads={threads})
    if interpreter.get_signature_list():
        runner = interpreter.get_signature_runner()
        return lambda feeds: runner(**feeds)
    inputs = {{port["name"]: port["index"] for port in interpreter.get_input_details()}}
    made = {{port["name"]: port["index"] for port in interpreter.get_output_details()}}

    def run(feeds):
        for name, array in feeds.items():
            interpreter.resize_tensor_input(inputs[name], array.shape)
        interpreter.allocate_tensors()
        for name, array in feeds.items():
            interpreter.set_tensor(inputs[name], array)
        interpreter.invoke()
        return {{name: interpreter.get_tensor(made[name]) for name in outputs}}

    return run
"""


class LiteRtSession(Session):
    """One interpreter, whose tensors are allocated anew when a request has other shapes than the last."""

    def __init__(self, interpreter: Any, task: Task) -> None:
        self._interpreter = interpreter
        inputs, outputs = ports(interpreter)
        _check("input", inputs, [spec.name for spec in task.inputs])
        _check("output", outputs, [spec.name for spec in task.outputs])
        self._inputs = {spec.name: inputs[spec.name]["index"] for spec in task.inputs}
        self._outputs = [outputs[spec.name]["index"] for spec in task.outputs]
        self._allowed = {name: [int(dim) for dim in inputs[name]["shape_signature"]] for name in self._inputs}
        self._shapes: list[tuple[int, ...]] = []

    # Read after loading, which is timed.
    @functools.cached_property
    def precision(self) -> str:  # type: ignore[override]
        """`int8` if the file holds tensors of that type, otherwise `float32`."""
        types = {tensor["dtype"].__name__ for tensor in self._interpreter.get_tensor_details()}
        return "int8" if "int8" in types else "float32"

    def run(self, feeds: Arrays) -> Outputs:
        interpreter = self._interpreter
        shapes = [feeds[name].shape for name in self._inputs]
        if shapes != self._shapes:
            self._resize(dict(zip(self._inputs, shapes, strict=True)))
            self._shapes = shapes
        for name, index in self._inputs.items():
            interpreter.set_tensor(index, feeds[name])
        interpreter.invoke()
        return [interpreter.get_tensor(index) for index in self._outputs]

    def _resize(self, shapes: dict[str, tuple[int, ...]]) -> None:
        for name, shape in shapes.items():
            allowed = self._allowed[name]
            # The interpreter would take any shape, and compute something else or crash.
            if len(shape) != len(allowed) or any(
                dim not in (-1, size) for dim, size in zip(allowed, shape, strict=True)
            ):
                raise ArtifactError(f"the file takes {name} as {tuple(allowed)} only (-1 is any size), not {shape}")
            self._interpreter.resize_tensor_input(self._inputs[name], shape)
        self._interpreter.allocate_tensors()

    def close(self) -> None:
        self._interpreter = None


class LiteRt(Runtime):
    """Opens `.tflite` files that have one signature."""

    requires = ("ai_edge_litert",)
    extra = "litert"
    formats = ("tflite",)
    default_for = ("tflite",)
    imports = ("ai_edge_litert.interpreter",)

    def code(self, *, provider: str, threads: int) -> str | None:
        return CODE.format(threads=threads)

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        self.check_provider(provider)
        from ai_edge_litert.interpreter import Interpreter

        return LiteRtSession(Interpreter(str(artifact), num_threads=threads), task)


def _check(kind: str, found: dict[str, Any], expected: list[str]) -> None:
    if sorted(found) != sorted(expected):
        raise ArtifactError(f"the file's {kind}s are {', '.join(found)}; the task's are {', '.join(expected)}")
