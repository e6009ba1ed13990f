"""tf2onnx's translation of a TFLite file to ONNX."""

import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.api import Exporter, Info, Task
from bench.api.errors import RefusedError
from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import all_nodes
from bench.plugins.engines import litert, litert_operators
from bench.plugins.engines.litert_operators import INSTEAD

PREFIX = "TFL_"
"""Begins the names of TFLite's operators in tf2onnx, also of those that it leaves as they are."""
_FLEX = "Flex"
"""Begins the names of TensorFlow's own operators in a TFLite file."""


class TfLiteOnnx(Exporter):
    """ONNX by `tf2onnx.convert.from_tflite`, at the opset that it prefers."""

    portable = True
    sources = ("tflite",)
    requires = ("ai_edge_litert", "tensorflow", "tf2onnx", "onnx", "onnx_ir")
    extra = "tf,litert"
    writes = "onnx"

    def export(self, task: Task, source: str, target: Path) -> Info:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        import onnx_ir as ir
        import tf2onnx

        logging.getLogger("tf2onnx").setLevel(logging.ERROR)
        file = task.native_path(source)
        litert_operators.refuse_resources(file, "ONNX")
        with tempfile.TemporaryDirectory() as folder:
            dense = litert.without_sparse(file, Path(folder) / "dense.tflite")
            try:
                proto, _ = tf2onnx.convert.from_tflite(str(dense))
            except Exception as error:
                _refuse_unknown(dense, error)
                raise
        _refuse_operators(
            [node.op_type for node in all_nodes(proto) if not (node.domain or onnx.defs.has(node.op_type))]
        )
        model = ir.from_proto(proto)
        for specs, values, order in zip(
            (task.inputs, task.outputs),
            (model.graph.inputs, model.graph.outputs),
            litert.places(file, task),
            strict=True,
        ):
            for spec, place in zip(specs, order, strict=True):
                values[place].name = spec.name
        onnx.save(ir.to_proto(model), target)
        return {"opset": next(opset.version for opset in proto.opset_import if not opset.domain)}


def _refuse_operators(names: Sequence[str]) -> None:
    """Refuse a file with operators that tf2onnx does not translate.

    Raises:
        RefusedError: there are some; the message names them.
    """
    if names:
        description = litert_operators.listed([name.removeprefix(PREFIX) for name in dict.fromkeys(names)])
        raise RefusedError(f"tf2onnx has no ONNX for its {description}; {INSTEAD}")


def _refuse_unknown(file: Path, error: Exception) -> None:
    """Refuse a file with tensors or operators that tf2onnx does not know, and by which it fails in its own words.

    Raises:
        RefusedError: there are some; the message names the operators.
    """
    from tf2onnx import handler
    from tf2onnx.tflite.TensorType import TensorType
    from tf2onnx.tflite_utils import TFLITE_TO_ONNX_DTYPE

    types_by_operator = litert_operators.operators(file)
    known = {name for name, number in vars(TensorType).items() if number in TFLITE_TO_ONNX_DTYPE}
    other = {name: types - known for name, types in types_by_operator.items() if types - known}
    if other:
        types, description = ", ".join(sorted(set.union(*other.values()))), litert_operators.listed([*other])
        raise RefusedError(
            f"tf2onnx reads no tensors of the type {types}, as its {description} has; {INSTEAD}"
        ) from error
    translated = {name for versions in handler.tf_op.get_opsets().values() for version in versions for name in version}
    try:
        _refuse_operators(
            [name for name in types_by_operator if PREFIX + name not in translated and not name.startswith(_FLEX)]
        )
    except RefusedError as refusal:
        raise refusal from error
