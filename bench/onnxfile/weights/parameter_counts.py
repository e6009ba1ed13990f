"""The parameters of a file, counted by the rule of `bench.onnxfile.weights.parameters`, and what it stores twice.

Files of other formats are counted by the same rule: their reader names their operators as ONNX does, and gives the
numbers that they store as values of `stored`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.api.errors import InputError
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file import lazy
from bench.onnxfile.shapes.node import Node, Value
from bench.onnxfile.weights import repeats
from bench.onnxfile.weights.parameters import learned, stored_nodes
from bench.onnxfile.weights.repeats import Weight


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counted:
    """The parameters of a file.

    Attributes:
        num_params: how many there are; each stored array counts once.
        repeated: which arrays are stored more than once, see `repeats.sentence`.
    """

    num_params: int
    repeated: str | None = None


def of_onnx(path: Path) -> Counted:
    """The parameters of an ONNX file.

    Raises:
        InputError: the file cannot be read.
    """
    stored = lazy.read(path)
    try:
        nodes = list(stored_nodes(stored))
        arrays: dict[int, tuple[str, Callable[[], np.ndarray]]] = {}
        for node in nodes:
            for name, value in zip(node.reads, node.inputs, strict=False):
                if value is not None and value.tensor is not None and stored.has(value.tensor):
                    arrays[id(value)] = (name, functools.partial(stored.array, value.tensor))
        return count(nodes, arrays)
    finally:
        stored.files.clear()


def count(nodes: Sequence[Node], arrays: dict[int, tuple[str, Callable[[], np.ndarray]]]) -> Counted:
    """The parameters that nodes read.

    Args:
        nodes: all nodes of a model, those of its subgraphs included.
        arrays: name and reader of the stored arrays, by the `id` of their `Value`.
    """
    counts = learned(nodes)
    weights = [
        Weight(name=arrays[key][0], num_params=number, array=arrays[key][1])
        for key, number in counts.items()
        if key in arrays
    ]
    repeated = None
    with contextlib.suppress(InputError):  # their data lie in a file that is not here, and they count all the same
        repeated = repeats.sentence(weights)
    return Counted(num_params=sum(counts.values()), repeated=repeated)


def node(operator: str, inputs: Iterable[tuple[str, Value | None]], outputs: Iterable[str]) -> Node:
    """A node of a file of another format.

    Args:
        operator: ONNX's name of the operator.
        inputs: name of each input, and the value of one that the file stores.
        outputs: names of the outputs.
    """
    named = list(inputs)
    proto = onnx.NodeProto(op_type=operator, input=[name for name, _ in named], output=outputs)
    return Node(proto, [value for _, value in named])


def stored(dtype: str, shape: Iterable[int]) -> Value:
    """A value that a file of another format stores.

    Args:
        dtype: ONNX's name of the element type, such as `float` or `int4`.
        shape: its shape.
    """
    here: Any = object()  # nothing is read from it
    return Value(onnx.TensorProto.DataType.Value(dtype.upper()), tuple(map(int, shape)), stored=here)
