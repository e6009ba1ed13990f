"""tract: an engine for ONNX files in Rust, on one thread."""

import functools
from pathlib import Path
from typing import Any

from bench.api import Runtime, Session, Task
from bench.api.errors import ArtifactError
from bench.plugins.engines.calls import CallSession


class TractSession(CallSession):
    """One runnable model; its outputs are named after nodes, and come in the order of the file, which is the task's."""

    def __init__(self, call: Any, task: Task, artifact: Path, tensor: Any) -> None:
        super().__init__(call, task, tensor=tensor, array=lambda output: output.to_numpy())
        self._artifact = artifact
        del self.precision  # the property tells it

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

        loaded = tract.Onnx().load(artifact)
        names = [loaded.input_name(number) for number in range(loaded.input_count())]
        if sorted(names) != sorted(spec.name for spec in task.inputs):
            raise ArtifactError(f"tract reads the inputs {', '.join(names)}")
        if loaded.output_count() != len(task.outputs):
            raise ArtifactError(f"tract reads {loaded.output_count()} outputs; the task has {len(task.outputs)}")
        places = [[spec.name for spec in task.inputs].index(name) for name in names]
        runnable = loaded.into_model().into_runnable()
        return TractSession(
            lambda *tensors: runnable.run([tensors[place] for place in places]),
            task,
            artifact,
            tract.Tensor.from_numpy,
        )
