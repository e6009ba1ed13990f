"""llama.cpp on the processor, by the package xllamacpp: weights, cache and attention as its defaults have them."""

from pathlib import Path

from bench.api import Runtime, Session, Task


class LlamaCpp(Runtime):
    """Opens GGUF files."""

    title = "llama.cpp"
    requires = ("xllamacpp", "gguf")
    extra = "generate"
    formats = ("gguf",)
    default_for = ("gguf",)
    generates = True
    scores = False

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        from bench.plugins.engines.llama_cpp import LlamaGenerator

        assert task.request is not None, "it only generates"
        return LlamaGenerator(artifact, task.request, threads)
