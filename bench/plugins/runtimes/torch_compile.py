"""torch.compile with its default backend, Inductor, which writes C++ or Triton code and compiles it.

Weights are frozen into the code. The code is compiled at the first inference, for its shapes, and cached for later
processes, which is PyTorch's default: the first inference of a launch finds the code that verifying compiled.
"""

from __future__ import annotations

from typing import Any

from bench.api import cache
from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import torch
from bench.plugins.engines.pytorch.runtime import TorchRuntime, no_compiler


class TorchCompile(TorchRuntime):
    """Compiles the module just in time."""

    title = "torch.compile"
    compiles = True
    imports = ("torch._dynamo", "torch._inductor.compile_fx")  # imports of seconds, which would count as loading

    def skip(self) -> str | None:
        return super().skip() or no_compiler()

    def environment(self, threads: int) -> dict[str, str]:
        return {
            **super().environment(threads),
            "TORCHINDUCTOR_CACHE_DIR": str(cache.folder() / "torchinductor"),
            # Processes that help to compile would stay, and their memory would count as the model's.
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }

    def callable(self, model: torch.nn.Module) -> Any:
        if isinstance(model, torch.jit.ScriptModule):
            raise ArtifactError("the model is TorchScript, which torch.compile cannot read; run it with pytorch")
        return torch.compile(model, options={"freezing": True})
