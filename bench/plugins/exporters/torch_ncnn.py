"""ncnn: a traced PyTorch model, translated by pnnx. One file: an uncompressed tar of `model.param` and `model.bin`."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bench.api import Info, Task
from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import torch
from bench.plugins.engines.archive import pack
from bench.plugins.engines.lacking_types import lacking
from bench.plugins.engines.pytorch.exporter import TorchExporter, single

PARTS = ("model.param", "model.bin")
_OUTPUTS = ("pnnxparam", "pnnxbin", "pnnxpy", "pnnxonnx", "ncnnparam", "ncnnbin", "ncnnpy")
"""Options of pnnx that name the files it writes; without an option, pnnx chooses the folder of the file."""
_TYPES = {"float32": "f32", "int64": "i64"}


class TorchNcnn(TorchExporter):
    """Layers and weights in float32, for one sample of the size of the task's."""

    requires = ("torch", "ncnn", "pnnx")
    extra = "ncnn"
    method = "trace"
    freezes = True
    writes = "ncnn"

    def refusal(self, task: Task) -> str | None:
        reason = "ncnn takes samples along a first axis, which this model does not have"
        return super().refusal(task) or lacking(task, _TYPES) or (None if task.batched else reason)

    def convert(self, model: Any, example: tuple[Any, ...], task: Task, target: Path) -> Info:
        import pnnx

        example = single(example, task)
        with tempfile.TemporaryDirectory(dir=target.parent) as name:
            folder = Path(name)
            torch.jit.trace(model, example, check_trace=False).save(str(folder / "traced.pt"))
            # Not pnnx.export: it starts the program through a shell, and does not report a failure.
            shapes = [
                str(list(tensor.shape)).replace(" ", "") + _TYPES[spec.dtype]
                for tensor, spec in zip(example, task.inputs, strict=True)
            ]
            files = {option: folder / f"written.{option}" for option in _OUTPUTS}
            files |= dict(zip(("ncnnparam", "ncnnbin"), (folder / part for part in PARTS), strict=True))
            options = [f"{option}={path}" for option, path in files.items()]
            command = [pnnx.EXEC_PATH, folder / "traced.pt", f"inputshape={','.join(shapes)}", "fp16=0", *options]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
            unknown = [line for line in done.stderr.splitlines() if "not supported" in line or "ignore" in line]
            if done.returncode != 0 or not all((folder / part).is_file() for part in PARTS):
                raise ArtifactError(f"pnnx cannot translate this model (status {done.returncode}) {' '.join(unknown)}")
            pack(folder, PARTS, target)
        return {}
