"""The onnx package's own evaluator: every operator in NumPy, by the letter of the standard, and slow."""

from pathlib import Path
from typing import Any

from bench.api import Arrays, Outputs, Runtime, Session, Task


class EvaluatorSession(Session):
    """One model, called with arrays."""

    def __init__(self, evaluator: Any, task: Task) -> None:
        self._run = evaluator.run
        self._outputs = [spec.name for spec in task.outputs]

    def run(self, feeds: Arrays) -> Outputs:
        outputs: Outputs = self._run(self._outputs, dict(feeds))
        return outputs


class Evaluator(Runtime):
    """Opens ONNX files on the processor; NumPy takes its threads from the environment, which the harness sets."""

    requires = ("onnx",)
    formats = ("onnx",)

    def import_packages(self) -> None:
        import onnx.reference  # noqa: F401

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        from onnx.reference import ReferenceEvaluator

        return EvaluatorSession(ReferenceEvaluator(str(artifact)), task)
