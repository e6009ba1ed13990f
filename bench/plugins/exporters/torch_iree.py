"""IREE: PyTorch's ONNX export, compiled ahead of time into a module for this processor.

IREE 3.13.0 compiles an LSTM to wrong code that reads more than 128 features which the model itself computes, at a
dynamic batch: its cell begins with the first features instead of its state. Verifying finds such a model broken, and
docs/reading-the-table.md says what is known of that.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

from bench.api import Info, Task
from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import onnx
from bench.plugins.engines.pytorch.exporter import TorchThroughOnnxExporter


class TorchIree(TorchThroughOnnxExporter):
    """A `.vmfb` module with one public function, called `main`."""

    requires = ("torch", "onnxscript", "onnx", "iree.compiler")
    extra = "torch,iree"
    writes = "vmfb"

    def convert_onnx(self, path: Path, task: Task, target: Path) -> Info:
        from iree.compiler import tools

        model = onnx.load(path)
        model.graph.name = "main"
        _spell_out_depth_to_space(model.graph)
        onnx.save(model, path)
        mlir = path.with_suffix(".mlir")
        command = [sys.executable, "-P", "-m", "iree.compiler.tools.import_onnx", str(path), "-o", str(mlir)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or ["it says nothing"]
            raise ArtifactError(f"IREE cannot read the ONNX file: {said[-1]}")
        tools.compile_file(
            str(mlir),
            input_type="onnx",
            target_backends=["llvm-cpu"],
            output_file=str(target),
            extra_args=["--iree-llvmcpu-target-cpu=host"],
        )
        return {}


def _spell_out_depth_to_space(graph: onnx.GraphProto) -> None:
    """Write DepthToSpace of mode CRD as Reshapes and a Transpose: IREE 3.13.0 gives wrong pixels for DepthToSpace.

    A 0 in a Reshape keeps the size in that place, so dynamic sizes stay in their places until they are multiplied:
    (N, C, H, W), (N, C', b, b, H, W), (N, C', H, b, W, b), (N, C', H b, 1, W, b), (N, C', H b, 1, W b, 1).
    """
    nodes = []
    for node in graph.node:
        attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
        if node.op_type != "DepthToSpace" or attributes.get("mode") != b"CRD":
            nodes.append(node)
            continue
        block, output = attributes["blocksize"], node.output[0]
        steps: list[tuple[str, list[int]]] = [
            ("Unsqueeze", [2, 3]),
            ("Reshape", [0, -1, block, block, 0, 0]),
            ("Transpose", [0, 1, 4, 2, 5, 3]),
            ("Reshape", [0, 0, -1, 1, 0, block]),
            ("Reshape", [0, 0, 0, 1, -1, 1]),
            ("Squeeze", [3, 5]),
        ]
        values = [node.input[0], *(f"{output}:{number}" for number in range(len(steps) - 1)), output]
        for (op_type, numbers), (read, target) in zip(steps, itertools.pairwise(values), strict=True):
            if op_type == "Transpose":
                nodes.append(onnx.helper.make_node(op_type, [read], [target], perm=numbers))
            else:
                constant = onnx.helper.make_tensor(f"{target}:numbers", onnx.TensorProto.INT64, [len(numbers)], numbers)
                graph.initializer.append(constant)
                nodes.append(onnx.helper.make_node(op_type, [read, constant.name], [target]))
    del graph.node[:]
    graph.node.extend(nodes)
