"""Small weights set to zero: what pruning by magnitude, without training again, costs in accuracy."""

from pathlib import Path
from typing import Any

from bench.api import Task, Variant
from bench.api.errors import RefusedError


class Prune(Variant):
    """Zeroes the smallest weights of each matrix and kernel: with `prune-50`, the smaller half of them."""

    requires = ("onnx",)
    options = ("5", "50")
    lossy = True

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> dict[str, Any]:
        import numpy as np
        import onnx
        from onnx import numpy_helper

        model = onnx.load(source)
        num_pruned = 0
        for tensor in model.graph.initializer:
            if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1:
                weight = numpy_helper.to_array(tensor)
                is_small = (weight != 0) & (np.abs(weight) < np.percentile(np.abs(weight), int(option)))
                tensor.CopyFrom(numpy_helper.from_array(np.where(is_small, np.float32(0), weight), tensor.name))
                num_pruned += int(is_small.sum())
        if not num_pruned:
            raise RefusedError("the file has no float32 matrix or kernel with weights to zero")
        onnx.save(model, target)
        return {"num_pruned": num_pruned}
