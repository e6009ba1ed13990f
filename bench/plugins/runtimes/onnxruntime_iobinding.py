"""ONNX Runtime with I/O binding: inputs are not copied, and outputs reuse the memory of the last request."""

from typing import Any

from bench.api import UNKNOWN, Arrays, Outputs, Runtime, Session, Task
from bench.api.decoder import Request
from bench.plugins.engines.onnxruntime.runtime import OrtRuntime


class BoundSession(Session):
    """One InferenceSession with outputs in host memory, which the next run overwrites."""

    def __init__(self, session: Any, task: Task) -> None:
        self._run = session.run_with_iobinding
        self._binding = session.io_binding()
        self._outputs = [spec.name for spec in task.outputs]
        self._unknown = any(UNKNOWN in spec.shape for spec in task.outputs)
        self._shapes: list[tuple[int, ...]] = []

    def run(self, feeds: Arrays) -> Outputs:
        shapes = [array.shape for array in feeds.values()]
        is_new = shapes != self._shapes or self._unknown
        if is_new:
            self._bind_outputs()
            self._shapes = shapes
        for name, array in feeds.items():
            self._binding.bind_cpu_input(name, array)
        try:
            self._run(self._binding)
        except Exception:
            if is_new:
                raise
            # The data of the last request made outputs of other shapes, though the model has names for their sizes.
            self._unknown = True
            self._bind_outputs()
            self._run(self._binding)
        self._binding.synchronize_outputs()  # a device may still be copying
        return [output.numpy() for output in self._binding.get_outputs()]

    def _bind_outputs(self) -> None:
        """Let ONNX Runtime allocate the outputs at the next run, and keep them for the runs after it."""
        self._binding.clear_binding_outputs()
        for name in self._outputs:
            self._binding.bind_output(name, "cpu")


class OnnxRuntimeIoBinding(OrtRuntime):
    """Opens ONNX files and binds their inputs and outputs."""

    def refusal(self, task: Task) -> str | None:
        return Runtime.refusal(self, task)

    def session(self, session: Any, task: Task) -> Session:
        return BoundSession(session, task)

    def stepper(self, session: Any, request: Request) -> Session:
        from bench.plugins.engines.onnxruntime.stepper import BoundStepper

        return BoundStepper(session, request)

    def code(self, *, provider: str, threads: int) -> str | None:
        return None  # the gain of a binding depends on the program that holds the arrays
