"""The framework's own format: a copy of the weights file, which the framework's own runtime opens."""

import shutil
from pathlib import Path

from bench.api import Exporter, Info, Task

_FORMATS = {"tf": "keras", "as_is": "onnx"}
"""Formats by source, for sources whose format has another name."""


class Native(Exporter):
    """Copies the task's weights file, so that the framework's own runtime builds the model from it."""

    portable = True
    sources = ()
    copies = True

    def format(self, source: str) -> str:
        return _FORMATS.get(source, source)

    def export(self, task: Task, source: str, target: Path) -> Info:
        file = task.native_path(source)
        shutil.copyfile(file, target)
        # Another file of the same graph, such as one that a runtime refuses for what it states of its tensors.
        return {"alone": True} if file != task.weights_path else {}
