"""The base of the runtimes that run models with PyTorch: devices, precisions, threads, arrays in and out.

A provider is a device, `cpu` or `cuda`, in float32 throughout; with `-bf16`, operators that PyTorch deems safe (matrix
products and convolutions above all) run in bfloat16 by autocast, and outputs are float32 again.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import warnings
from pathlib import Path
from typing import Any, ClassVar

from bench.api import Arrays, Outputs, Runtime, Session, Task
from bench.api.decoder import Request
from bench.onnxfile.deferred import torch
from bench.plugins.engines import cpu, gpu
from bench.plugins.engines.calls import CallSession
from bench.plugins.engines.pytorch import script as torch_script

BFLOAT16 = "-bf16"


class TorchSession(CallSession):
    """A callable on PyTorch's tensors.

    Args:
        call: as for `CallSession`.
        task: as for `CallSession`.
        provider: the provider of the cell.
        num_params: see `Session.num_params`.
        precision: see `Session.precision`; None for the precision of the provider.
    """

    def __init__(
        self, call: Any, task: Task, provider: str, num_params: int | None, precision: str | None = None
    ) -> None:
        device, is_reduced = provider.removesuffix(BFLOAT16), provider.endswith(BFLOAT16)
        # On the processor `to` and `cpu` return their tensor; on another device they copy, and `cpu` waits for it.
        super().__init__(
            call,
            task,
            tensor=lambda array: torch.from_numpy(array).to(device),
            array=lambda output: (output.float() if output.dtype == torch.bfloat16 else output).cpu().numpy(),
            num_params=num_params,
            precision=precision or ("bfloat16" if is_reduced else "float32"),
        )
        self._inference_mode = torch.inference_mode
        self._autocast: Any = torch.autocast(device, torch.bfloat16) if is_reduced else contextlib.nullcontext()

    def run(self, feeds: Arrays) -> Outputs:
        with self._inference_mode(), self._autocast:
            return super().run(feeds)


class TorchRuntime(Runtime):
    """Runs a task's PyTorch model."""

    requires: ClassVar[tuple[str, ...]] = ("torch",)
    extra = "torch"
    formats: ClassVar[tuple[str, ...]] = ("torch",)
    generates = True

    def providers(self) -> tuple[str, ...]:
        devices = ["cpu", "cpu" + BFLOAT16] if cpu.multiplies_bfloat16() else ["cpu"]
        return (*devices, *(("cuda", "cuda" + BFLOAT16) if _has_cuda() else ()))

    def environment(self, threads: int) -> dict[str, str]:
        return {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}

    def builds(self, artifact: Path) -> bool:
        return not torch_script.is_script(artifact)

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        # Feeds may be read-only, and no model here writes to its inputs.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        torch.set_num_threads(threads)
        if torch.get_num_interop_threads() != 1:  # a process may set the number only once
            torch.set_num_interop_threads(1)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False  # the default for convolutions, and a reduced precision
        return self.session(artifact, task=task, source=source, provider=provider)

    def session(self, artifact: Path, *, task: Task, source: str, provider: str) -> Session:
        """The model on its device, ready to run."""
        if torch_script.is_script(artifact):
            script, precision, num_params = torch_script.load(artifact)
            if task.request is not None:
                from bench.plugins.engines.pytorch.stepper import PassStepper

                return PassStepper(self.callable(script), task.request, num_params, precision)
            return TorchSession(self.callable(script), task, provider, num_params, precision)
        if task.request is not None:
            return self.stepper(task.build_step(source, artifact), task.request, provider)
        model = task.build(source, artifact).to(provider.removesuffix(BFLOAT16))
        session = TorchSession(self.callable(model), task, provider, torch_script.num_params(model))
        if not provider.endswith(BFLOAT16):
            session.precision = torch_script.precision(model)
        return session

    def stepper(self, step: torch.nn.Module, request: Request, provider: str) -> Session:
        """The decoder on its device, in the precision of the provider throughout: weights, too, are stored in it."""
        from bench.plugins.engines.pytorch.stepper import TorchStepper

        precision = "bfloat16" if provider.endswith(BFLOAT16) else "float32"
        step = step.to(provider.removesuffix(BFLOAT16), getattr(torch, precision))
        return TorchStepper(step, request, self.callable, precision)

    def callable(self, model: torch.nn.Module) -> Any:
        """The function to call with tensors, made from the model."""
        return model


def no_compiler() -> str | None:
    """The reason why Inductor cannot compile here, or None: it writes C++, around the kernels of a GPU as well."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++", "cl"]
    if any(shutil.which(name) for name in names):
        return None
    return f"no C++ compiler found ({', '.join(names)}); install one, such as g++, or name it in $CXX"


def _has_cuda() -> bool:
    """Whether an NVIDIA driver is loaded and PyTorch's version does not name a build without CUDA."""
    if not gpu.has_nvidia():
        return False
    try:
        return not importlib.metadata.version("torch").endswith("+cpu")
    except importlib.metadata.PackageNotFoundError:
        return False
