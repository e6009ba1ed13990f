"""A session around a callable on tensors, for runtimes whose package calls a model like a function."""

import operator
from collections.abc import Callable
from typing import Any

from bench.api import Arrays, Outputs, Session, Task


class CallSession(Session):
    """Calls a function with one tensor for each input.

    Args:
        call: takes the task's inputs in their order; returns its outputs in a list or a tuple, or the only output.
        tensor: makes a tensor of the package from a host array.
        array: makes a host array from a tensor of the package, by default by the tensor's method `numpy`; returns only
            when the numbers are there.
        num_params: see `Session.num_params`.
        precision: see `Session.precision`.
        keeps: an object that `call` needs but does not hold, until the session is closed.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        task: Task,
        *,
        tensor: Callable[[Any], Any],
        array: Callable[[Any], Any] = operator.methodcaller("numpy"),
        num_params: int | None = None,
        precision: str | None = "float32",
        keeps: object = None,
    ) -> None:
        self._call: Any = call
        self._tensor, self._array, self._keeps = tensor, array, keeps
        self._names = [spec.name for spec in task.inputs]
        self.num_params, self.precision = num_params, precision

    def run(self, feeds: Arrays) -> Outputs:
        outputs = self._call(*[self._tensor(feeds[name]) for name in self._names])
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return [self._array(output) for output in outputs]

    def close(self) -> None:
        self._call = self._keeps = None
