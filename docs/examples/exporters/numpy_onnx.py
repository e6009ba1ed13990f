"""ONNX of linear layers with a ReLU between them: the way out of the source `numpy`."""

from pathlib import Path
from typing import Any

from bench.api import Exporter, Task, TensorSpec

OPSET = 20


class NumpyOnnx(Exporter):
    """A Gemm for each layer and a Relu between any two, put together with onnx's own helpers."""

    requires = ("onnx",)
    sources = ("numpy",)

    def format(self, source: str) -> str:
        return "onnx"

    def export(self, task: Task, source: str, target: Path) -> dict[str, Any]:
        import onnx
        from onnx import helper, numpy_helper

        nodes, weights = [], []
        value = task.inputs[0].name
        for number, layer in enumerate(task.build(source, task.weights_path), start=1):
            if number > 1:
                nodes.append(helper.make_node("Relu", [value], [f"hidden_{number}"]))
                value = f"hidden_{number}"
            names = [f"weight_{number}", f"bias_{number}"]
            weights += [numpy_helper.from_array(array, name) for array, name in zip(layer, names, strict=True)]
            nodes.append(helper.make_node("Gemm", [value, *names], [f"sums_{number}"]))
            value = f"sums_{number}"
        nodes[-1].output[0] = task.outputs[0].name
        inputs, outputs = ([_value_info(spec) for spec in specs] for specs in (task.inputs, task.outputs))
        graph = helper.make_graph(nodes, task.name, inputs, outputs, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, target)
        return {"opset": OPSET}


def _value_info(spec: TensorSpec) -> Any:
    """An input or output, its dynamic dimensions by name."""
    import numpy as np
    from onnx import helper

    return helper.make_tensor_value_info(spec.name, helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype)), spec.shape)
