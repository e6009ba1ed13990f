"""Apache TVM: PyTorch's ONNX export, compiled ahead of time for this processor by TVM's default pipeline.

That pipeline gives no operator a schedule: loops are neither parallel nor tiled, and a convolution takes some fifty
times as long as in ONNX Runtime. Tuning, which TVM recommends, takes hours and is not done here.
TVM 0.27 reads no LSTM from ONNX: the export of such a model fails with TVM's reason.
"""

import traceback
from pathlib import Path
from typing import Any

from bench.api import Info, Task
from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import onnx
from bench.plugins.engines.pytorch.exporter import TorchThroughOnnxExporter


class TorchTvm(TorchThroughOnnxExporter):
    """A shared library for TVM's Relax virtual machine."""

    requires = ("torch", "onnxscript", "onnx", "tvm")
    extra = "torch,tvm"
    writes = "tvm"

    def convert_onnx(self, path: Path, task: Task, target: Path) -> Info:
        import tvm
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx

        processor = tvm.target.codegen.llvm_get_system_cpu()
        try:
            translated = from_onnx(onnx.load(path))
        except Exception as error:
            if (reason := _untranslated(error)) is None:
                raise
            raise ArtifactError(reason) from error
        module = relax.transform.DecomposeOpsForInference()(translated)
        compiled = tvm.compile(module, tvm.target.Target({"kind": "llvm", "mcpu": processor}))
        library = path.with_suffix(".so")  # TVM tells the kind of library by the end of its name
        compiled.export_library(str(library))
        library.replace(target)
        return {"target": processor}


def _untranslated(error: Exception) -> str | None:
    """The operator at which TVM stopped because it knows no shape of an input; None where another thing is the cause.

    TVM 0.27 takes such a shape for a list, and its own error says neither.
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_name == "_construct_nodes":
            operator, inputs = frame.f_locals["op_name"], frame.f_locals["inputs"]
            if any(map(_is_without_shape, inputs)):
                return f"TVM cannot translate {operator} of a tensor whose shape it cannot infer"
    return None


def _is_without_shape(value: Any) -> bool:
    return getattr(getattr(value, "ty", None), "shape", ()) is None
