"""ONNX Runtime with its default options, but for threads that rest between requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import Runtime, Session, Task
from bench.errors import InputError
from bench.plugins import suggest

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from bench.api import Arrays

PROVIDERS = {"cpu": "CPUExecutionProvider"}
"""ONNX Runtime's names of the providers, by ours."""


class OnnxRuntimeSession(Session):
    """One InferenceSession."""

    def __init__(self, session: Any, task: Task) -> None:
        self._run = session.run
        self._outputs = [spec.name for spec in task.outputs]

    def run(self, feeds: Arrays) -> Sequence[np.ndarray]:
        outputs: list[np.ndarray] = self._run(self._outputs, feeds)
        return outputs


class OnnxRuntime(Runtime):
    """Opens ONNX files."""

    requires = ("onnxruntime",)
    formats = ("onnx",)
    default_for = ("onnx",)

    def providers(self) -> tuple[str, ...]:
        return tuple(PROVIDERS)

    def environment(self, threads: int) -> dict[str, str]:
        return {"ORT_DISABLE_TELEMETRY": "1"}

    def import_packages(self) -> None:
        import onnxruntime  # noqa: F401

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        if provider not in self.providers():
            raise InputError(f"{self.name} has no provider {provider!r}; {suggest(provider, self.providers())}")
        import onnxruntime

        onnxruntime.disable_telemetry_events()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Threads that go on spinning after a run take the processor from whichever session runs next.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        session = onnxruntime.InferenceSession(artifact, options, providers=[PROVIDERS[provider]])
        return OnnxRuntimeSession(session, task)
