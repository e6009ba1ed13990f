"""ExecuTorch: PyTorch's runtime for devices, with XNNPACK, on a processor."""

from pathlib import Path
from typing import Any

from bench.api import Arrays, Outputs, Runtime, Session, Task
from bench.api.errors import InputError, suggest


class ExecuTorchSession(Session):
    """The method `forward` of a program."""

    def __init__(self, program: Any, task: Task) -> None:
        import torch

        self._program = program  # what it reads lies there
        self._execute = program.load_method("forward").execute
        self._names = [spec.name for spec in task.inputs]
        self._tensor = torch.from_numpy

    def run(self, feeds: Arrays) -> Outputs:
        outputs = self._execute([self._tensor(feeds[name]) for name in self._names])
        return [output.numpy() for output in outputs]

    def close(self) -> None:
        self._execute = self._program = None


class ExecuTorch(Runtime):
    """Opens `.pte` programs."""

    requires = ("executorch", "torch")
    extra = "executorch"
    formats = ("pte",)

    def import_packages(self) -> None:
        import executorch.runtime  # noqa: F401
        import torch  # noqa: F401

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        if provider not in self.providers():
            raise InputError(f"{self.name} has no provider {provider!r}; {suggest(provider, self.providers())}")
        import warnings

        import executorch.runtime
        from executorch.extension.pybindings import portable_lib

        # Feeds may be read-only, and no model here writes to its inputs.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        portable_lib._unsafe_reset_threadpool(threads)  # of its own, which no variable of the environment sizes
        return ExecuTorchSession(executorch.runtime.Runtime.get().load_program(artifact), task)
