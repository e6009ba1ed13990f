"""MNN's own format, converted from PyTorch's ONNX export."""

import re
import subprocess
import sys
from pathlib import Path

from bench.api import Info, Task
from bench.api.errors import ArtifactError
from bench.plugins.engines.pytorch.exporter import TorchThroughOnnxExporter

CONVERT = "import sys, _tools; _tools.mnnconvert(sys.argv[1:])"
"""Not `mnnconvert`, nor the Python module of that name: they install packages and send usage data."""
_UNKNOWN = "Op Not Support"
"""In the line of the converter's output that names the operators that MNN does not have."""


class TorchMnn(TorchThroughOnnxExporter):
    """An `.mnn` file in float32."""

    requires = ("torch", "onnxscript", "onnx", "MNN", "_tools")
    extra = "torch,more"
    writes = "mnn"

    def convert_onnx(self, path: Path, task: Task, target: Path) -> Info:
        # Without the option MNN unrolls an LSTM into a loop, and crashes on the LSTM of dynamo's export (MNN 3.6.1).
        options = ["-f", "ONNX", "--modelFile", str(path), "--MNNModel", str(target), "--useOriginRNNImpl"]
        command = [sys.executable, "-P", "-c", CONVERT, "mnnconvert", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not target.is_file():  # the converter ends with 0 where it writes no file
            lines = [re.sub(r"^\[[\d:]+\] :\d+: ", "", line) for line in done.stdout.splitlines()]
            reasons = "".join(f": {line.strip()}" for line in lines if _UNKNOWN in line)
            raise ArtifactError(f"MNN cannot convert this model (status {done.returncode}){reasons}")
        return {}
