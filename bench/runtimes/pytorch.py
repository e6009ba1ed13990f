"""PyTorch as it is deployed by default: eager, in inference mode."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import Runtime, Session, Task
from bench.errors import InputError
from bench.plugins import suggest

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from bench.api import Arrays


class PyTorchSession(Session):
    """One module, called as it is."""

    def __init__(self, model: Any, task: Task) -> None:
        import torch

        self._model = model
        self._names = [spec.name for spec in task.inputs]
        self._tensor = torch.from_numpy
        self._inference_mode = torch.inference_mode

    def run(self, feeds: Arrays) -> Sequence[np.ndarray]:
        with self._inference_mode():
            outputs = self._model(*[self._tensor(feeds[name]) for name in self._names])
            if isinstance(outputs, (list, tuple)):
                return [output.numpy() for output in outputs]
            return [outputs.numpy()]


class PyTorch(Runtime):
    """Eager PyTorch on the processor."""

    requires = ("torch",)
    extra = "torch"
    formats = ("torch",)
    default_for = ("torch",)

    def environment(self, threads: int) -> dict[str, str]:
        return {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}

    def import_packages(self) -> None:
        import torch  # noqa: F401

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        if provider not in self.providers():
            raise InputError(f"{self.name} has no provider {provider!r}; {suggest(provider, self.providers())}")
        import torch

        # Feeds may be read-only, and no model here writes to its inputs.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        torch.set_num_threads(threads)
        if torch.get_num_interop_threads() != 1:  # it may be set once in a process
            torch.set_num_interop_threads(1)
        return PyTorchSession(task.build(source, artifact), task)
