"""litert-torch: a PyTorch model as a `.tflite` file, without TensorFlow and without ONNX.

Its packages take another JAX than others here, and 2 GB, so they have an environment of their own. It keeps no dynamic
size but by tricks, and makes 64-bit integers 32-bit ones, so its files are of one size and take what their inputs say.

It hands StableHLO to litert-converter, which takes no SavedModel in Python (0.5.0) and so does not replace TensorFlow's
converter; that converts all reference models, see `tflite.py`.
"""

from pathlib import Path
from typing import Any

from bench.api import Info, Task
from bench.api.errors import ArtifactError
from bench.plugins.engines.litert import renamed
from bench.plugins.engines.pytorch.exporter import TorchExporter, single

_IDENTIFIER = b"TFL3"
"""What a TFLite file has after its first four bytes."""


class TorchLiteRt(TorchExporter):
    """A flatbuffer for LiteRT, in float32, for one sample of the size of the task's."""

    requires = ("torch", "litert_torch")
    isolated = (
        *("litert-torch==0.10.0", "torch==2.13.0", "transformers==5.23.0"),
        *("onnx", "pillow", "safetensors", "scipy"),  # which read a task and its samples
    )
    freezes = True
    writes = "tflite"

    def convert(self, model: Any, example: tuple[Any, ...], task: Task, target: Path) -> Info:
        import litert_torch

        litert_torch.convert(model, single(example, task)).export(str(target))
        content = target.read_bytes()
        if content[4:8] != _IDENTIFIER:
            raise ArtifactError("litert-torch wrote no TFLite file")
        inputs = {f"args_{number}": spec.name for number, spec in enumerate(task.inputs)}
        outputs = {f"output_{number}": spec.name for number, spec in enumerate(task.outputs)}
        target.write_bytes(renamed(content, inputs, outputs))
        return {"batch": 1}
