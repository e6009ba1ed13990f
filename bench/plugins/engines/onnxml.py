"""ONNX files of estimators: the converters of XGBoost and LightGBM in pipelines, and the interface of a task."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.api import Info, Task
from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file.digest import inferred_outputs
from bench.onnxfile.file.foreign import keep_tensors
from bench.plugins.engines.estimators import PROBABILITIES

_CLASSIFIER = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
"""The options that skl2onnx knows of classifiers."""


_LEAST_OPSET = 13
"""The opset of a file whose converter used no operator of ONNX's own domain."""


@contextlib.contextmanager
def booleans_as_integers() -> Iterator[None]:
    """Lets converters write booleans as attributes of integers, which skl2onnx 1.20 does and protobuf 7 refuses."""
    make = onnx.helper.make_attribute

    def make_plain(key: str, value: Any, *more: Any, **named: Any) -> Any:
        if isinstance(value, list):
            value = [int(item) if isinstance(item, (bool, np.bool_)) else item for item in value]
        return make(key, value, *more, **named)

    onnx.helper.make_attribute = make_plain
    try:
        yield
    finally:
        onnx.helper.make_attribute = make


def register_boosters() -> None:
    """Tell skl2onnx of onnxmltools' converters, for those of XGBoost and LightGBM that are installed."""
    from skl2onnx import update_registered_converter
    from skl2onnx.common.shape_calculator import (
        calculate_linear_classifier_output_shapes,
        calculate_linear_regressor_output_shapes,
    )

    def register(classifier: type, regressor: type, convert: Any) -> None:
        shapes = calculate_linear_classifier_output_shapes
        update_registered_converter(classifier, classifier.__name__, shapes, convert, options=_CLASSIFIER)
        update_registered_converter(regressor, regressor.__name__, calculate_linear_regressor_output_shapes, convert)

    with contextlib.suppress(ImportError):
        from lightgbm import LGBMClassifier, LGBMRegressor
        from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm

        register(LGBMClassifier, LGBMRegressor, convert_lightgbm)
    with contextlib.suppress(ImportError):
        from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
        from xgboost import XGBClassifier, XGBRegressor

        register(XGBClassifier, XGBRegressor, convert_xgboost)


def save(proto: onnx.ModelProto, task: Task, target: Path) -> Info:
    """Write what a converter made with the task's only output, and without the nodes that only others need.

    Raises:
        ArtifactError: the converter made no such output.
    """
    import onnx_ir as ir
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    keep_tensors(proto)
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in inferred_outputs(proto)}
    model = ir.from_proto(proto)
    model.opset_imports.setdefault("", _LEAST_OPSET)
    (spec,) = task.outputs
    outputs = list(model.graph.outputs)
    place = 1 if spec.name == PROBABILITIES else 0  # the labels come before their probabilities
    if place >= len(outputs):
        raise ArtifactError(f"the converter made {', '.join(str(value.name) for value in outputs)}, and no {spec.name}")
    value = outputs[place]
    if len(spec.shape) == 1 and ranks.get(value.name) != 1:  # a table with one column
        value = _flat(model, value)
    for other in (output for node in model.graph.all_nodes() for output in node.outputs):
        if other.name == spec.name:
            other.name = f"{spec.name}_before"
    value.name = spec.name
    # skl2onnx states the shape (N, 1) for the predictions of several targets, too.
    value.shape = ir.Shape([None if isinstance(dim, str) else dim for dim in spec.shape])
    model.graph.outputs.clear()
    model.graph.outputs.append(value)
    RemoveUnusedNodesPass()(model)
    onnx.save(ir.to_proto(model), target)
    return {"opset": model.opset_imports[""]}


def _flat(model: Any, value: Any) -> Any:
    """A new value with the elements of a value along one axis."""
    import onnx_ir as ir

    name = "flat_shape"
    sizes = ir.Value(name=name, const_value=ir.tensor([-1], dtype=ir.DataType.INT64, name=name))
    model.graph.register_initializer(sizes)
    node = ir.node("Reshape", [value, sizes])
    model.graph.append(node)
    (flat,) = node.outputs
    flat.type = value.type
    return flat
