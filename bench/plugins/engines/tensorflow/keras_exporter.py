"""The base of the exporters by Keras itself: `Model.export`, and a look at what it wrote before that counts."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import ClassVar

from bench.api import Exporter, Info, Task


class KerasExporter(Exporter):
    """Takes a Keras model on one of Keras's backends.

    Keras writes some files that nothing can open, without an error (3.15.1), so each is opened by `finish`.
    """

    portable = True
    requires: ClassVar[tuple[str, ...]] = ("tensorflow", "keras")
    extra = "tf"
    sources = ("tf",)
    keras_format: ClassVar[str]
    """Keras's name of the format."""
    backend: ClassVar[str] = "tensorflow"
    """Keras's name of the framework that runs the model while it is exported."""
    suffix: ClassVar[str] = ""
    """The end of the name of a file in this format."""

    def export(self, task: Task, source: str, target: Path) -> Info:
        os.environ["KERAS_BACKEND"] = self.backend
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        import keras

        if keras.backend.backend() != self.backend:  # it was imported ahead
            keras.config.set_backend(self.backend)
        model = task.build(source, task.weights_path)
        inputs = [
            keras.InputSpec(
                shape=[dim if isinstance(dim, int) else None for dim in spec.shape], dtype=spec.dtype, name=spec.name
            )
            for spec in task.inputs
        ]
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            written = Path(folder, f"model{self.suffix}")
            model.export(str(written), format=self.keras_format, verbose=False, input_signature=inputs)
            return self.finish(written, task, target)

    def finish(self, written: Path, task: Task, target: Path) -> Info:
        """Open what Keras wrote, give its ports the task's names, and make the artifact of it.

        Raises:
            ArtifactError: it cannot be opened, or has other inputs or outputs than the task.
        """
        raise NotImplementedError
