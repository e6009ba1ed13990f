"""A TFLite file in LiteRT's interpreter: the names of its inputs and outputs, and a session that runs it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import Arrays, Outputs, Task
from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import np
from bench.plugins.engines.counted_session import CountedSession

if TYPE_CHECKING:
    from bench.onnxfile.weights.parameter_counts import Counted


def ports(interpreter: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The interpreter's details of the inputs and of the outputs, each by name.

    The names are those of the file's signature; a file without a signature, or with one that has no name and that the
    interpreter cannot run for that reason, has the names of its tensors.

    Raises:
        ArtifactError: the file has several signatures.
    """
    signatures = interpreter.get_signature_list()
    if len(signatures) > 1:
        raise ArtifactError(f"the file has the signatures {', '.join(signatures)}; only one can be measured")
    if any(signatures):
        runner = interpreter.get_signature_runner()  # it knows the names; the file's order may be another
        return runner.get_input_details(), runner.get_output_details()
    details = interpreter.get_input_details(), interpreter.get_output_details()
    inputs, outputs = ({str(detail["name"]): detail for detail in side} for side in details)
    return inputs, outputs


def places(path: Path, task: Task) -> tuple[list[int], list[int]]:
    """Where the task's inputs, and its outputs, are among those of a file's graph, whose order converters keep.

    Raises:
        ArtifactError: as `ports`.
    """
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path), num_threads=1)
    positions = []
    for named, order, specs in zip(
        ports(interpreter),
        (interpreter.get_input_details(), interpreter.get_output_details()),
        (task.inputs, task.outputs),
        strict=True,
    ):
        indices = [detail["index"] for detail in order]
        positions.append([indices.index(named[spec.name]["index"]) for spec in specs])
    inputs, outputs = positions
    return inputs, outputs


def without_sparse(path: Path, target: Path) -> Path:
    """The file itself, or a copy whose sparse weights are stored in full, for a converter that reads no others.

    Source: the operator DENSIFY and `SparsityParameters` in TFLite's `schema.fbs`.
    """
    import flatbuffers  # type: ignore[import-untyped]
    import numpy as np
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes(), 0))
    graph = model.subgraphs[0]
    kinds = [max(code.builtinCode, code.deprecatedBuiltinCode) for code in model.operatorCodes]
    expanding = [
        operator for operator in graph.operators if kinds[operator.opcodeIndex] == schema.BuiltinOperator.DENSIFY
    ]
    if not expanding:
        return path
    interpreter = Interpreter(
        str(path),
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    interpreter.invoke()  # the operators run with the first request
    for operator in expanding:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(interpreter.get_tensor(operator.outputs[0]).tobytes(), np.uint8)
        model.buffers.append(buffer)
        for index in (operator.inputs[0], operator.outputs[0]):
            graph.tensors[index].buffer, graph.tensors[index].sparsity = len(model.buffers) - 1, None
    graph.operators = [
        operator for operator in graph.operators if kinds[operator.opcodeIndex] != schema.BuiltinOperator.DENSIFY
    ]
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    target.write_bytes(builder.Output())
    return target


class LiteRtSession(CountedSession):
    """One interpreter, whose tensors are allocated anew when a request has other shapes than the last.

    Args:
        interpreter: the interpreter of the file.
        path: of the file.
        inputs: names of the file's inputs, in any order.
        outputs: names of the file's outputs, in the order in which `run` returns them.

    Raises:
        ArtifactError: the file has other inputs or outputs, or several signatures.
    """

    def __init__(self, interpreter: Any, path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._interpreter, self._path = interpreter, path
        sides = ports(interpreter)
        for kind, details, names in (("input", sides[0], inputs), ("output", sides[1], outputs)):
            if sorted(details) != sorted(names):
                raise ArtifactError(f"the file's {kind}s are {', '.join(details)}; the task's are {', '.join(names)}")
        self._inputs = {name: sides[0][name]["index"] for name in inputs}
        self._outputs = [sides[1][name]["index"] for name in outputs]
        self._types = {name: sides[0][name]["dtype"] for name in inputs}
        self._allowed = {name: [int(dim) for dim in sides[0][name]["shape_signature"]] for name in inputs}
        self._shapes: list[tuple[int, ...]] = []

    # Read after loading, which is timed.
    @functools.cached_property
    def precision(self) -> str:  # type: ignore[override]
        """See `precision_of`."""
        return precision_of(self._interpreter)

    def count(self) -> Counted:
        """The parameters that the file stores."""
        from bench.plugins.engines import litert_parameters

        return litert_parameters.of_file(self._path)

    def run(self, feeds: Arrays) -> Outputs:
        interpreter = self._interpreter
        shapes = [feeds[name].shape for name in self._inputs]
        if shapes != self._shapes:
            self._resize(dict(zip(self._inputs, shapes, strict=True)))
            self._shapes = shapes
        for name, index in self._inputs.items():
            interpreter.set_tensor(index, as_type(feeds[name], self._types[name]))
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


def precision_of(interpreter: Any) -> str:
    """`int8` if the file holds tensors of that type, or unsigned ones with a scale; otherwise `float32`."""
    tensors = [(each["dtype"].__name__, each["quantization"][0]) for each in interpreter.get_tensor_details()]
    return "int8" if any(name == "int8" or (name == "uint8" and scale) for name, scale in tensors) else "float32"


def as_type(array: np.ndarray, dtype: Any) -> np.ndarray:
    """An array in the type of a file's input: converters from PyTorch make 64-bit integers 32-bit ones.

    Raises:
        ArtifactError: a number has no room in that type.
    """
    if array.dtype == dtype:
        return array
    converted = array.astype(dtype, casting="same_kind")
    if (changed := converted != array).any():
        lost = array[changed].flat[0]
        raise ArtifactError(f"the file takes numbers as {np.dtype(dtype).name}, in which {lost} has no room")
    return converted


def renamed(content: bytes, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> bytes:
    """The same TFLite file with other names of inputs and outputs in its signatures, by the names that they have."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    for signature in model.signatureDefs or ():
        for ports, names in ((signature.inputs, inputs), (signature.outputs, outputs)):
            for port in ports:
                port.name = names.get(port.name.decode(), port.name.decode())
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
