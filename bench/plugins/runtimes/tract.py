"""tract: an engine for ONNX files in Rust, on one thread."""

import functools
import time
from pathlib import Path
from typing import Any

from bench.api import Arrays, Outputs, Runtime, Session, Task
from bench.api.errors import ArtifactError
from bench.onnxfile.file import lazy
from bench.plugins.engines.calls import CallSession


class TractSession(CallSession):
    """One runnable model.

    Args:
        call: as for `CallSession`, but its outputs come in the order of the file.
        task: as for `CallSession`.
        artifact: the file.
        tensor: as for `CallSession`.
        order: where each output of the task is among those of the file.
    """

    def __init__(self, call: Any, task: Task, artifact: Path, tensor: Any, order: list[int]) -> None:
        super().__init__(call, task, tensor=tensor, array=lambda output: output.to_numpy())
        self._artifact, self._order = artifact, order
        del self.precision  # the property tells it

    def run(self, feeds: Arrays) -> Outputs:
        outputs = super().run(feeds)
        return [outputs[place] for place in self._order]

    # Read after everything that is timed: the file is read again.
    @functools.cached_property
    def precision(self) -> str | None:  # type: ignore[override]
        """`float32` for a file that has no other products; tract does not tell what it makes of others."""
        from bench.plugins.engines.onnxruntime import precision

        return "float32" if precision.is_plain(self._artifact) else None


class Tract(Runtime):
    """Opens ONNX files by their path, with the optimizations of `into_runnable`."""

    title = "tract"
    requires = ("tract", "onnx")
    extra = "tract"
    formats = ("onnx",)
    imports = ("tract",)

    def one_thread_only(self) -> bool:
        return True

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        import tract

        start_ns = time.perf_counter_ns()
        loaded = tract.Onnx().load(artifact)
        names = [loaded.input_name(number) for number in range(loaded.input_count())]
        if sorted(names) != sorted(spec.name for spec in task.inputs):
            raise ArtifactError(f"tract reads the inputs {', '.join(names)}")
        if loaded.output_count() != len(task.outputs):
            raise ArtifactError(f"tract reads {loaded.output_count()} outputs; the task has {len(task.outputs)}")
        places = [[spec.name for spec in task.inputs].index(name) for name in names]
        runnable = loaded.into_model().into_runnable()
        load_ns = time.perf_counter_ns() - start_ns
        session = TractSession(
            lambda *tensors: runnable.run([tensors[place] for place in places]),
            task,
            artifact,
            tract.Tensor.from_numpy,
            _order(artifact, task),
        )
        session.load_ns = load_ns  # without the second look at the file, which a program that knows it does not take
        return session


def _order(artifact: Path, task: Task) -> list[int]:
    """Where each output of a task is among those of a file; tract tells names of nodes alone.

    Exporters may write outputs in another order than the task's, as tf2onnx does by the alphabet.

    Raises:
        ArtifactError: the file has other outputs.
    """
    if len(task.outputs) == 1:
        return [0]  # without reading the file
    names = [value.name for value in lazy.read(artifact).model.graph.output]
    if sorted(names) != sorted(spec.name for spec in task.outputs):
        raise ArtifactError(f"the file has the outputs {', '.join(names)}")
    return [names.index(spec.name) for spec in task.outputs]
