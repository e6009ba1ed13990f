"""llama.cpp on the processor, by the package xllamacpp: weights, cache and attention as its defaults have them."""

from pathlib import Path

from bench.api import Runtime, Session, Task
from bench.api.errors import ArtifactError


class LlamaCpp(Runtime):
    """Opens GGUF files."""

    requires = ("xllamacpp", "gguf")
    extra = "generate"
    formats = ("gguf",)
    default_for = ("gguf",)
    generates = True

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        self.check_provider(provider)
        from bench.plugins.engines.llama_cpp import LlamaGenerator

        if task.request is None:
            raise ArtifactError("llama.cpp generates text; it scores no given text at once")
        return LlamaGenerator(artifact, task.request, threads)
