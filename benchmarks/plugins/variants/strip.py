"""A planted slowdown of a real model: the network runs once more, over a strip of its input.

The work of convolutions is in proportion to the height of their input, so a strip of 5 % of the rows is 5 % more work,
of the kind that the network has anyway. The outputs stay as they are, bit by bit.
"""

from pathlib import Path
from typing import Any

from bench.api import Task, Variant

TODAY_PERCENT = 0
"""More work, in per cent, of the variant without an option. `benchmarks/planted.py` changes this number in copies of
this file, so that a cell becomes slower from one revision to the next."""


class Strip(Variant):
    """Adds a share of the network's own work in front of the network."""

    options = ("", "3", "5", "10", "20")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> dict[str, Any]:
        import onnx

        percent = int(option or TODAY_PERCENT)
        model = onnx.load(source)
        num_rows = round(task.samples("test").inputs[task.inputs[0].name].shape[2] * percent / 100)
        if num_rows:
            plant(model.graph, num_rows)
            onnx.checker.check_model(model)
        onnx.save(model, target)
        return {"planted_rows": num_rows}


def plant(graph: Any, num_rows: int) -> None:
    """Let a copy of every node run over the first rows of the input (N, C, H, W), before the network does."""
    import numpy as np
    from onnx import helper, numpy_helper

    weights = {tensor.name for tensor in graph.initializer}
    image, result = graph.input[0].name, graph.output[0].name
    network = list(graph.node)
    copies = [helper.make_node("Slice", [image, "first_row", "end_row", "height_axis"], [f"strip/{image}"])]
    for node in network:
        copy = type(node)()
        copy.CopyFrom(node)
        copy.name = f"strip/{node.name}"
        copy.input[:] = [name if name in weights else f"strip/{name}" for name in node.input]
        copy.output[:] = [f"strip/{name}" for name in node.output]
        copies.append(copy)
    # The copy must be needed: its largest output, times zero, is added to the input, which is the smallest tensor here.
    copies.append(helper.make_node("ReduceMax", [f"strip/{result}"], ["strip_max"], keepdims=0))
    copies.append(helper.make_node("Mul", ["strip_max", "zero"], ["nothing"]))
    copies.append(helper.make_node("Add", [image, "nothing"], ["image_again"]))
    for node in network:
        node.input[:] = ["image_again" if name == image else name for name in node.input]
    del graph.node[:]
    graph.node.extend([*copies, *network])
    for name, value in {"first_row": 0, "end_row": num_rows, "height_axis": 2}.items():
        graph.initializer.append(numpy_helper.from_array(np.array([value], np.int64), name))
    graph.initializer.append(numpy_helper.from_array(np.zeros((), np.float32), "zero"))
