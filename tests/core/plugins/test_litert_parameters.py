"""Parameters of TFLite files: in the bodies of loops, in shared buffers, and in few bits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

schema: Any = pytest.importorskip("ai_edge_litert.schema_py_generated")
flatbuffers = pytest.importorskip("flatbuffers")

from bench.plugins.engines.litert_parameters import of_file  # noqa: E402

RNG = np.random.default_rng(0)
TYPES = {"float32": "FLOAT32", "float16": "FLOAT16", "int8": "INT8", "uint8": "UINT8", "int32": "INT32"}
X, Y = (None, "FLOAT32", (1, 4)), (None, "FLOAT32", (1, 4))
Tensor = tuple[np.ndarray | None, str, tuple[int, ...]]


def floats(*shape: int) -> Tensor:
    return RNG.standard_normal(shape).astype(np.float32), "FLOAT32", shape


def codes(*shape: int, dtype: str = "int8") -> Tensor:
    return RNG.integers(-100, 100, shape).astype(dtype), TYPES[dtype], shape


def file(
    folder: Path,
    *graphs: list[tuple[str, list[str], list[str]]],
    tensors: dict[str, Tensor],
    shared: dict[str, str] | None = None,
    plain: tuple[str, ...] = (),
) -> Path:
    """A TFLite file of graphs, each a list of (operator, inputs, outputs); the last output is the graph's.

    Args:
        folder: for the file.
        graphs: the main graph, and those that its loops call.
        tensors: by name, the elements (None for those that are computed), the type and the shape.
        shared: by the name of a tensor, the name of the tensor whose buffer it has.
        plain: tensors of integers that are not quantized.
    """
    buffers: list[Any] = [schema.BufferT()]
    places: dict[str, int] = {}
    for name, (array, _, _) in tensors.items():
        if array is not None and name not in (shared or {}):
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(array.tobytes(), np.uint8)
            buffers.append(buffer)
            places[name] = len(buffers) - 1
    places |= {name: places[other] for name, other in (shared or {}).items()}
    kinds: list[str] = []
    found = []
    for nodes in graphs:
        graph = schema.SubGraphT()
        names = list(dict.fromkeys(name for _, inputs, outputs in nodes for name in (*inputs, *outputs)))
        graph.tensors = [tensor(name, tensors[name], places.get(name, 0), name in plain) for name in names]
        graph.operators = []
        for kind, inputs, outputs in nodes:
            operator = schema.OperatorT()
            kinds += [kind] if kind not in kinds else []
            operator.opcodeIndex = kinds.index(kind)
            operator.inputs, operator.outputs = ([names.index(name) for name in side] for side in (inputs, outputs))
            graph.operators.append(operator)
        graph.inputs, graph.outputs = [names.index(nodes[0][1][0])], [names.index(nodes[-1][2][-1])]
        found.append(graph)
    model = schema.ModelT()
    model.version, model.subgraphs, model.buffers, model.operatorCodes = 3, found, buffers, []
    for kind in kinds:
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, kind)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        model.operatorCodes.append(code)
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    path = folder / "model.tflite"
    path.write_bytes(builder.Output())
    return path


def tensor(name: str, told: Tensor, buffer: int, is_plain: bool) -> Any:
    made = schema.TensorT()
    made.name, made.type, made.shape, made.buffer = name, getattr(schema.TensorType, told[1]), list(told[2]), buffer
    if told[1] not in ("FLOAT32", "FLOAT16") and not is_plain:
        made.quantization = schema.QuantizationParametersT()
        made.quantization.scale, made.quantization.zeroPoint = [0.1], [0]
    return made


DENSE = [("FULLY_CONNECTED", ["x", "w", "b"], ["y"])]


@pytest.mark.parametrize(
    ("nodes", "tensors", "num_params"),
    [
        (DENSE, {"w": floats(4, 4), "b": floats(4)}, 20),
        (DENSE, {"w": codes(4, 4), "b": floats(4)}, 20),  # dynamic: activations stay floats
        (DENSE, {"w": codes(4, 4), "b": codes(4, dtype="int32")}, 20),  # static: the bias has 32 bits
        (DENSE, {"w": (np.zeros(8, np.uint8), "INT4", (4, 4)), "b": floats(4)}, 20),  # two numbers in a byte
        (
            [("DEQUANTIZE", ["half"], ["w"]), ("FULLY_CONNECTED", ["x", "w", "b"], ["y"])],
            {"half": (np.ones((4, 4), np.float16), "FLOAT16", (4, 4)), "w": (None, "FLOAT32", (4, 4)), "b": floats(4)},
            20,
        ),
        ([*DENSE[:0], ("CONV_2D", ["x", "k", "b"], ["y"])], {"k": floats(8, 3, 3, 2), "b": floats(8)}, 152),
        ([("GATHER", ["table", "x"], ["y"])], {"table": codes(100, 4)}, 400),
        ([("RESHAPE", ["x", "shape"], ["y"])], {"shape": codes(2, dtype="int32")}, 0),
        ([("MUL", ["x", "s"], ["y"])], {"s": floats(1)}, 0),
        (
            [("FULLY_CONNECTED", ["x", "w"], ["h"]), ("MUL", ["h", "s"], ["y"])],
            {"w": floats(4, 4), "s": floats(1, 1)},
            16,
        ),
        ([("FULLY_CONNECTED", ["x", "w"], ["h"]), ("ADD", ["h", "s"], ["y"])], {"w": floats(1, 4), "s": floats(1)}, 5),
        ([("MUL", ["x", "f"], ["a"]), ("COS", ["a"], ["c"]), ("SIN", ["a"], ["y"])], {"f": floats(4)}, 0),
    ],
)
def test_numbers_of_operators(
    nodes: list[tuple[str, list[str], list[str]]], tensors: dict[str, Tensor], num_params: int, tmp_path: Path
) -> None:
    computed = {"x": X, "y": Y, "h": Y, "a": Y, "c": Y}
    path = file(tmp_path, nodes, tensors={**computed, **tensors})
    found = of_file(path)
    assert (found.num_params, found.repeated) == (num_params, None)


def test_integers_that_are_not_quantized_are_no_parameters(tmp_path: Path) -> None:
    path = file(tmp_path, [("ADD", ["x", "mask"], ["y"])], tensors={"x": X, "y": Y, "mask": codes(4)}, plain=("mask",))
    assert of_file(path).num_params == 0


@pytest.mark.parametrize("uses", [2, 3, 12])
def test_a_buffer_that_several_tensors_share_counts_once(uses: int, tmp_path: Path) -> None:
    names = [f"w{number}" for number in range(uses)]
    nodes = [("FULLY_CONNECTED", [f"h{number}", name], [f"h{number + 1}"]) for number, name in enumerate(names)]
    tensors: dict[str, Tensor] = dict.fromkeys(names, floats(4, 4))
    tensors |= {f"h{number}": X for number in range(uses + 1)}
    shared = dict.fromkeys(names[1:], names[0])
    assert of_file(file(tmp_path, nodes, tensors=tensors, shared=shared)).num_params == 16
    found = of_file(file(tmp_path, nodes, tensors=tensors))
    assert found.num_params == uses * 16
    more = f" and {uses - 2} more" if uses > 2 else ""
    assert found.repeated == f"{(uses - 1) * 16:,} are stored again: w0 as w1{more}"


@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_weights_in_the_body_of_a_loop_count_and_its_first_state_does_not(matrices: int, tmp_path: Path) -> None:
    """As a recurrent layer of Keras becomes: matrices and a bias in the body, a state of zeros before it."""
    main = [("WHILE", ["x", "state"], ["y", "end"])]
    condition = [("LESS", ["h0", "one"], ["y"])]
    body = [("FULLY_CONNECTED", [f"h{at}", f"w{at}"], [f"h{at + 1}"]) for at in range(matrices)]
    body.append(("ADD", [f"h{matrices}", "b"], ["y"]))
    tensors: dict[str, Tensor] = {"x": X, "y": Y, "end": Y, "b": floats(4), "one": floats(1)}
    tensors |= {"state": (np.zeros((1, 4), np.float32), "FLOAT32", (1, 4))}
    tensors |= {f"h{at}": X for at in range(matrices + 1)} | {f"w{at}": floats(4, 4) for at in range(matrices)}
    assert of_file(file(tmp_path, main, condition, body, tensors=tensors)).num_params == matrices * 16 + 4


@pytest.mark.parametrize("shape", [(64, 32), (32, 64)])
def test_a_table_that_is_stored_again_for_the_head_is_told(shape: tuple[int, int], tmp_path: Path) -> None:
    array = RNG.standard_normal((64, 32)).astype(np.float32)
    head = array if shape == array.shape else array.T
    nodes = [("GATHER", ["table", "x"], ["h"]), ("FULLY_CONNECTED", ["h", "head"], ["y"])]
    told = {"table": (array, "FLOAT32", (64, 32)), "head": (head, "FLOAT32", shape)}
    found = of_file(file(tmp_path, nodes, tensors={"x": X, "h": Y, "y": Y, **told}))
    assert (found.num_params, found.repeated) == (2 * 2048, "2,048 are stored again: table as head")


def test_the_interpreter_lists_the_same_tensors(tmp_path: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter

    path = file(tmp_path, DENSE, tensors={"x": X, "y": Y, "w": floats(4, 4), "b": floats(4)})
    listed = {each["name"]: math.prod(each["shape"]) for each in Interpreter(str(path)).get_tensor_details()}
    assert of_file(path).num_params == listed["w"] + listed["b"]
