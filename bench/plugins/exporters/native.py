"""The framework's own form: the weights file as it is, for the framework itself to run."""

import shutil
from pathlib import Path
from typing import Any

from bench.api import Exporter, Task

FORMATS = {"tf": "keras"}
"""Formats that are not called like their source."""


class Native(Exporter):
    """Copies the task's weights file, so that the framework's own runtime builds the model from it."""

    sources = ()

    def format(self, source: str) -> str:
        return FORMATS.get(source, source)

    def export(self, task: Task, source: str, target: Path) -> dict[str, Any]:
        shutil.copyfile(task.weights_path, target)
        return {}
