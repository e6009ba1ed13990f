"""The base of the runtimes that run ONNX files with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import Arrays, NodeTime, Outputs, Runtime, Session, Task
from bench.api.decoder import Request
from bench.api.names import ProviderName
from bench.plugins.engines.onnxruntime import options as ort_options
from bench.plugins.engines.onnxruntime import providers as ort_providers
from bench.plugins.engines.onnxruntime.providers import Provider

CODE = """\
import onnxruntime


def load(path, outputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = {threads}
    options.inter_op_num_threads = 1
{options}    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda feeds: dict(zip(outputs, session.run(outputs, dict(feeds)), strict=True))
"""

_REST = '    options.add_session_config_entry("session.force_spinning_stop", "1")  # as it was measured\n'
"""Of code with several threads, which rest between requests as those of `providers.open_session` do."""


def code_of(threads: int, options: str = "") -> str:
    """Source of `load(path, outputs)`, with lines that set further options of a session."""
    return CODE.format(threads=threads, options=(_REST if threads > 1 else "") + options)


class OrtSession(Session):
    """One InferenceSession, called with arrays."""

    def __init__(self, session: Any, task: Task) -> None:
        self._run = session.run
        self._outputs = [spec.name for spec in task.outputs]

    def run(self, feeds: Arrays) -> Outputs:
        return self._run(self._outputs, feeds)


class OrtRuntime(Runtime):
    """Opens ONNX files on every usable provider; subclasses differ in how the file and the arrays get in."""

    title = "ONNX Runtime"
    requires = ("onnxruntime",)
    formats = ("onnx",)
    generates = True
    options = {name: option.effect for name, option in ort_options.OPTIONS.items()}

    def refusal(self, task: Task) -> str | None:
        return None  # strings included

    def providers(self) -> tuple[str, ...]:
        return tuple(ort_providers.usable())

    def check_provider(self, provider: str) -> None:
        if provider != ort_providers.CPU.name:  # looking for other providers takes time
            super().check_provider(provider)

    def packages(self, provider: str) -> tuple[str, ...]:
        plugins = (
            () if ProviderName.parse(provider).device == ort_providers.CPU.name else ort_providers.plugin_packages()
        )
        return (*self.requires, *plugins)

    def environment(self, threads: int) -> dict[str, str]:
        return ort_providers.ENVIRONMENT

    def approximates(self) -> frozenset[str]:
        return frozenset({"gelu_approximation"})

    def runs_sessions_at_once(self) -> bool:
        return True

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        chosen, options = self._provider(provider)
        session = ort_providers.open_session(self.model(artifact), chosen, threads=threads, named=options)
        return self.session(session, task) if task.request is None else self.stepper(session, task.request)

    def profile_nodes(
        self, artifact: Path, *, task: Task, source: str, provider: str, threads: int, feeds: Arrays, num_runs: int
    ) -> Sequence[NodeTime] | None:
        from bench.plugins.engines.onnxruntime import profile

        chosen, options = self._provider(provider)
        return profile.profile(artifact, chosen, threads=threads, feeds=feeds, num_runs=num_runs, named=options)

    def _provider(self, provider: str) -> tuple[Provider, tuple[str, ...]]:
        if provider == ort_providers.CPU.name:
            return ort_providers.CPU, ()  # looking for other providers takes time, and opening is timed
        name = ProviderName.parse(provider)
        return ort_providers.usable()[name.device], name.options

    def inspect(self, artifact: Path, *, provider: str, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        from bench.plugins.engines.onnxruntime import placement
        from bench.plugins.engines.onnxruntime import precision as ort_precision

        precision: str | None = ort_precision.multiplies_in(artifact)
        provider = ProviderName.parse(provider).device
        if provider != ort_providers.CPU.name and not ort_precision.is_plain(artifact):
            precision = None  # no other provider tells its precision, and it may be lower than the processor's
        try:
            nodes_by_provider = placement.place(artifact, provider, shapes=shapes)
        except Exception as error:  # the precision is known even if the graph cannot be analysed
            return {"precision": precision, "warning": f"where its nodes run cannot be told: {error}"}
        warning = placement.fallback(nodes_by_provider, ort_providers.usable()[provider].ort_name)
        return {"precision": precision, "placement": nodes_by_provider, "warning": warning}

    def code(self, *, provider: str, threads: int) -> str | None:
        # Other providers are found at run time, and may need a plugin registered.
        name = ProviderName.parse(provider)
        if name.device != ort_providers.CPU.name:
            return None
        return code_of(threads, ort_options.code(name.options))

    def model(self, artifact: Path) -> Path | bytes:
        """The model as it is handed to ONNX Runtime: the path of the file, or its content."""
        return artifact

    def session(self, session: Any, task: Task) -> Session:
        """A session around an `InferenceSession`, which hands arrays in and out."""
        return OrtSession(session, task)

    def stepper(self, session: Any, request: Request) -> Session:
        """A session around an `InferenceSession` that generates."""
        from bench.plugins.engines.onnxruntime.stepper import ArrayStepper

        return ArrayStepper(session, request)
