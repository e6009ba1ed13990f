"""MNN's own format, converted from PyTorch's ONNX export."""

from pathlib import Path

from bench.api import Info, Task
from bench.api.errors import ArtifactError
from bench.plugins.engines.pytorch.exporter import TorchThroughOnnxExporter


class TorchMnn(TorchThroughOnnxExporter):
    """An `.mnn` file in float32."""

    requires = ("torch", "onnxscript", "onnx", "MNN", "_tools")
    extra = "more"
    writes = "mnn"

    def convert_onnx(self, path: Path, task: Task, target: Path) -> Info:
        # Not `mnnconvert`, nor the Python module of that name: they install packages and send usage data.
        import _tools

        command = ["mnnconvert", "-f", "ONNX", "--modelFile", str(path), "--MNNModel", str(target)]
        # Without the option MNN unrolls an LSTM into a loop, and crashes on the LSTM of dynamo's export (MNN 3.6.1).
        if not _tools.mnnconvert([*command, "--useOriginRNNImpl"]):
            raise ArtifactError("MNN cannot convert this model")
        return {}
