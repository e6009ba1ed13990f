"""CTranslate2: an engine in C++ for transformers, on a processor."""

from pathlib import Path

from bench.api import Runtime, Session, Task
from bench.api.names import ProviderName

_INT8 = "int8"


class CTranslate2(Runtime):
    """Opens CTranslate2's files in one archive."""

    title = "CTranslate2"
    requires = ("ctranslate2",)
    extra = "generate"
    formats = ("ctranslate2",)
    default_for = ("ctranslate2",)
    generates = True
    scores = False
    options = {_INT8: "products of weights and activations in 8 bits, quantized when the file is loaded"}

    def approximates(self) -> frozenset[str]:
        return frozenset({_INT8})

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        from bench.plugins.engines.ctranslate2 import CTranslate2Generator

        assert task.request is not None, "it only generates"
        is_int8 = _INT8 in ProviderName.parse(provider).options
        return CTranslate2Generator(artifact, task.request, threads, "int8_float32" if is_int8 else "float32")
