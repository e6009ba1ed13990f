"""Apache TVM: PyTorch's ONNX export, compiled ahead of time for this processor by TVM's default pipeline.

That pipeline gives no operator a schedule: loops are neither parallel nor tiled, and a convolution takes some fifty
times as long as in ONNX Runtime. Tuning, which TVM recommends, takes hours and is not done here.
TVM 0.27 reads no LSTM from ONNX: the export of such a model fails with TVM's reason.
"""

from pathlib import Path

from bench.api import Info, Task
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
        module = relax.transform.DecomposeOpsForInference()(from_onnx(onnx.load(path)))
        compiled = tvm.compile(module, tvm.target.Target({"kind": "llvm", "mcpu": processor}))
        library = path.with_suffix(".so")  # TVM tells the kind of library by the end of its name
        compiled.export_library(str(library))
        library.replace(target)
        return {"target": processor}
