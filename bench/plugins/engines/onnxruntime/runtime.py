"""What every way to run an ONNX file with ONNX Runtime has in common."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import Arrays, NodeTime, Outputs, Runtime, Session, Task
from bench.plugins.engines.onnxruntime import providers as ort_providers
from bench.plugins.engines.onnxruntime.providers import Provider

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


CODE = """\
import onnxruntime


def load(path, outputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = {threads}
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda feeds: dict(zip(outputs, session.run(outputs, dict(feeds)), strict=True))
"""


class OrtSession(Session):
    """One InferenceSession, called with arrays."""

    def __init__(self, session: Any, task: Task) -> None:
        self._run = session.run
        self._outputs = [spec.name for spec in task.outputs]

    def run(self, feeds: Arrays) -> Outputs:
        outputs: Outputs = self._run(self._outputs, feeds)
        return outputs


class OrtRuntime(Runtime):
    """Opens ONNX files on every provider that works here; what differs is how the file gets in, and how data do."""

    requires = ("onnxruntime",)
    formats = ("onnx",)

    def providers(self) -> tuple[str, ...]:
        return tuple(ort_providers.usable())

    def packages(self, provider: str) -> tuple[str, ...]:
        plugins = () if provider == ort_providers.CPU.name else ort_providers.plugin_packages()
        return (*self.requires, *plugins)

    def environment(self, threads: int) -> dict[str, str]:
        return ort_providers.ENVIRONMENT

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        chosen = self._provider(provider)
        return self.session(ort_providers.open_session(self.model(artifact), chosen, threads=threads), task)

    def profile_nodes(
        self, artifact: Path, *, task: Task, source: str, provider: str, threads: int, feeds: Arrays, num_runs: int
    ) -> Sequence[NodeTime] | None:
        from bench.plugins.engines.onnxruntime import profile

        chosen = self._provider(provider)
        return profile.profile(artifact, chosen, threads=threads, feeds=feeds, num_runs=num_runs)

    def _provider(self, name: str) -> Provider:
        if name == ort_providers.CPU.name:
            return ort_providers.CPU  # without asking what else there is: that takes time, and opening is timed
        self.check_provider(name)
        return ort_providers.usable()[name]

    def inspect(self, artifact: Path, *, provider: str, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        from bench.plugins.engines.onnxruntime import placement
        from bench.plugins.engines.onnxruntime import precision as ort_precision

        precision: str | None = ort_precision.multiplies_in(artifact)
        if provider != ort_providers.CPU.name and not ort_precision.is_plain(artifact):
            precision = None  # other providers cannot be asked, and may reduce it where the processor does not
        try:
            placed = placement.place(artifact, provider, shapes=shapes)
        except Exception as error:  # a graph that cannot be analysed still runs in a known precision
            return {"precision": precision, "warning": f"where its nodes run cannot be told: {error}"}
        asked_for = {ort_providers.CPU.name: ort_providers.CPU, **ort_providers.usable()}[provider].ort_name
        return {"precision": precision, "placement": placed, "warning": placement.fallback(placed, asked_for)}

    def code(self, *, provider: str, threads: int) -> str | None:
        # Other providers are found at run time, and may be plugins: `open` knows how.
        return CODE.format(threads=threads) if provider == ort_providers.CPU.name else None

    def model(self, artifact: Path) -> Path | bytes:
        """What ONNX Runtime is given to load."""
        return artifact

    def session(self, session: Any, task: Task) -> Session:
        """How requests get in and out."""
        return OrtSession(session, task)
