"""ONNX Runtime with its graph optimizations off: a cell that really differs from the default, by a known cause."""

from pathlib import Path

from bench.api import Runtime, Session, Task
from bench.plugins import catalog


class Unoptimized(Runtime):
    """Opens ONNX files as they are."""

    requires = ("onnxruntime",)
    formats = ("onnx",)

    def import_packages(self) -> None:
        import onnxruntime  # noqa: F401

    def environment(self, threads: int) -> dict[str, str]:
        return catalog.runtime("onnxruntime").environment(threads)

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.force_spinning_stop", "1")
        return _Plain(onnxruntime.InferenceSession(artifact, options, providers=["CPUExecutionProvider"]))


class _Plain(Session):
    def __init__(self, session: object) -> None:
        self._session = session

    def run(self, feeds):  # type: ignore[no-untyped-def]
        return self._session.run(None, feeds)
