"""A small model of several types, each of whose inputs is an output, too, and the right answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from bench.api import TensorSpec
from support import small_models

NAMES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}


class TypesTask(small_models.SmallTask):
    """Each input is an output, too, but for the numbers, which are doubled; a batch of any size."""

    inputs = tuple(TensorSpec(name=name, dtype=name, shape=("batch", 3)) for name in NAMES)
    outputs = tuple(TensorSpec(name=f"{name}_out", dtype=name, shape=("batch", 3)) for name in reversed(NAMES))


def save(path: Path) -> Path:
    """Write the model."""
    nodes = [
        helper.make_node("Identity" if name == "bool" else "Add", [name] * (1 + (name != "bool")), [f"{name}_out"])
        for name in NAMES
    ]
    inputs = [helper.make_tensor_value_info(name, kind, ["batch", 3]) for name, kind in NAMES.items()]
    outputs = [helper.make_tensor_value_info(f"{name}_out", kind, ["batch", 3]) for name, kind in NAMES.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "types", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def feeds(batch: int) -> dict[str, np.ndarray]:
    """A request, with numbers that no narrower type holds."""
    numbers = np.arange(3 * batch).reshape(batch, 3) - 2
    return {"float32": np.float32(numbers / 7), "int64": numbers * 2**40, "bool": numbers > 0}


def assert_right(found: Sequence[np.ndarray], request: Mapping[str, np.ndarray]) -> None:
    """The outputs of a request have the right types and values, in the order of the task."""
    for array, name in zip(found, reversed(NAMES), strict=True):
        assert array.dtype.name == name
        np.testing.assert_array_equal(array, request[name] if name == "bool" else request[name] * 2)
