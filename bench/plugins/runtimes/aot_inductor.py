"""AOTInductor's runtime: a compiled model, loaded by PyTorch's own loader."""

from pathlib import Path

from bench.api import Session, Task
from bench.onnxfile.deferred import torch
from bench.plugins.engines.pytorch.runtime import TorchRuntime, TorchSession


class AotInductor(TorchRuntime):
    """Opens `.pt2` packages; a package is compiled for one device and one precision."""

    title = "AOTInductor"
    formats = ("pt2",)
    generates = False
    imports = ("torch._inductor.package",)

    def providers(self) -> tuple[str, ...]:
        return ("cpu",)

    def builds(self, artifact: Path) -> bool:
        return False

    def session(self, artifact: Path, *, task: Task, source: str, provider: str) -> Session:
        model = torch._inductor.aoti_load_package(str(artifact))
        facts = model.loader.get_metadata()  # written by the exporter
        num_params = facts.get("num_params")
        session = TorchSession(model, task, provider, num_params and int(num_params))
        session.precision = facts.get("precision") or None
        return session
