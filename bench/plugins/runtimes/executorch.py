"""ExecuTorch: PyTorch's runtime for devices, with XNNPACK, on a processor."""

import warnings
from pathlib import Path

from bench.api import Runtime, Session, Task
from bench.onnxfile.deferred import torch
from bench.plugins.engines.calls import CallSession


class ExecuTorch(Runtime):
    """Opens `.pte` programs and runs their method `forward`."""

    title = "ExecuTorch"
    requires = ("executorch", "torch")
    extra = "torch,executorch"
    formats = ("pte",)
    imports = ("executorch.runtime", "torch")

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        import executorch.runtime
        from executorch.extension.pybindings import portable_lib

        # Feeds may be read-only, and no model here writes to its inputs.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        portable_lib._unsafe_reset_threadpool(threads)  # no variable of the environment sets its size
        program = executorch.runtime.Runtime.get().load_program(artifact)
        execute = program.load_method("forward").execute
        return CallSession(lambda *tensors: execute([*tensors]), task, tensor=torch.from_numpy, keeps=program)
