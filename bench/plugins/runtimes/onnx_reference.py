"""The evaluator of the onnx package: what each operator is defined to compute, in NumPy.

It says what is right where no other runtime runs a model as it is, so that changed copies can be judged. It takes
seconds for what others do in milliseconds, and no sweep times it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.api import Arrays, Outputs, Runtime, Session, Task
from bench.onnxfile.deferred import np, onnx


class EvaluatorSession(Session):
    """One evaluator, called with arrays."""

    def __init__(self, run: Callable[..., list[Any]], names: list[str]) -> None:
        self._run = run
        self._names = names

    def run(self, feeds: Arrays) -> Outputs:
        return [np.asarray(output) for output in self._run(self._names, dict(feeds))]


class OnnxReference(Runtime):
    """Opens ONNX files whose operators the onnx package can evaluate."""

    title = "onnx's evaluator"
    requires = ("onnx",)
    formats = ("onnx",)

    def stands_in_for(self, task: Task) -> bool:
        return False

    def one_thread_only(self) -> bool:
        return True

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        evaluator = onnx.reference.ReferenceEvaluator(str(artifact))
        return EvaluatorSession(evaluator.run, [spec.name for spec in task.outputs])
