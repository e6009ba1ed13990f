"""A TFLite file as LiteRT compiles it whole for a processor: a session with buffers of LiteRT's own."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import Arrays, Outputs, Task
from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import np
from bench.plugins.engines.counted_session import CountedSession
from bench.plugins.engines.litert import as_type, precision_of

if TYPE_CHECKING:
    from bench.onnxfile.weights.parameter_counts import Counted

_HALVES = {"int64": "int32"}
"""Types that LiteRT 2.3's buffers do not take by name, and the type as whose numbers their bytes are copied."""


class CompiledSession(CountedSession):
    """One compiled model, whose buffers are made anew when a request has other shapes than the last.

    Args:
        model: a `CompiledModel`, which refuses shapes that its file does not take.
        path: of the file.
        task: has the names and the shapes of its inputs and outputs.

    Raises:
        ArtifactError: the file has other inputs or outputs, or not one signature.
    """

    def __init__(self, model: Any, path: Path, task: Task) -> None:
        self._model, self._path, self._task = model, path, task
        signatures = model.get_signature_list()
        if len(signatures) != 1:
            named = ", ".join(signatures) or "no names"
            raise ArtifactError(f"the file's signatures have {named}; a file with one can be measured")
        ((self._signature, ports),) = signatures.items()
        for kind, specs in (("inputs", task.inputs), ("outputs", task.outputs)):
            names = [spec.name for spec in specs]
            if sorted(ports[kind]) != sorted(names):
                raise ArtifactError(
                    f"the file's {kind} are {', '.join(ports[kind])}; the task's are {', '.join(names)}"
                )
        self._inputs, self._outputs = list(ports["inputs"]), list(ports["outputs"])
        self._places = [self._outputs.index(spec.name) for spec in task.outputs]
        self._shapes: dict[str, tuple[int, ...]] = {}

    # Read after everything that is timed: the model itself does not tell.
    @functools.cached_property
    def precision(self) -> str:  # type: ignore[override]
        """See `litert.precision_of`."""
        from ai_edge_litert.interpreter import Interpreter

        return precision_of(Interpreter(str(self._path)))

    def count(self) -> Counted:
        """The parameters that the file stores."""
        from bench.plugins.engines import litert_parameters

        return litert_parameters.of_file(self._path)

    def run(self, feeds: Arrays) -> Outputs:
        shapes = {name: feeds[name].shape for name in self._inputs}
        if shapes != self._shapes:
            self._resize(shapes)
        for name, buffer in zip(self._inputs, self._written, strict=True):
            buffer.write(_copied(as_type(feeds[name], self._types[name])))
        self._model.run_by_index(0, self._written, self._read)
        return [self._array(place) for place in self._places]

    def _array(self, place: int) -> np.ndarray:
        dtype, shape = self._made[place]
        copied = np.dtype(_HALVES.get(dtype, dtype)).type
        number = math.prod(shape) * np.dtype(dtype).itemsize // np.dtype(copied).itemsize
        return np.asarray(self._read[place].read(number, copied)).view(dtype).reshape(shape)

    def _resize(self, shapes: dict[str, tuple[int, ...]]) -> None:
        from ai_edge_litert.tensor_buffer import TensorBuffer

        known = self._model.get_input_tensor_details(self._signature)
        self._types = {name: np.dtype(known[name]["dtype"]) for name in self._inputs}
        for number, (name, shape) in enumerate(shapes.items()):
            if tuple(known[name]["shape"]) != shape:
                self._model.resize_input_tensor(number, shape)
        self._written, self._read = self._model.create_input_buffers(0), self._model.create_output_buffers(0)
        details = self._model.get_output_tensor_details(self._signature)
        self._made = []
        for place, name in enumerate(self._outputs):
            dtype, by_litert = details[name]["dtype"], tuple(details[name]["shape"])
            shape = self._shape(name, shapes, by_litert)
            if shape != by_litert:
                self._read[place] = TensorBuffer.create_from_host_memory(_copied(np.zeros(shape, dtype)))
            self._made.append((dtype, shape))
        self._shapes = shapes

    def _shape(self, name: str, shapes: dict[str, tuple[int, ...]], by_litert: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of an output at inputs of these shapes: by the task, or else as LiteRT tells it.

        Of shapes that only the inference finds, LiteRT tells those of the smallest, where open sizes are 1, and would
        write beyond these.

        Raises:
            ArtifactError: the task does not tell the shape, and LiteRT only the smallest.
        """
        sizes: dict[int | str, int] = {}
        for spec in self._task.inputs:
            sizes.update(zip(spec.shape, shapes[spec.name], strict=True))
        (dims,) = (spec.shape for spec in self._task.outputs if spec.name == name)
        by_task = tuple(dim if isinstance(dim, int) else sizes.get(dim, -1) for dim in dims)
        if -1 not in by_task:
            return by_task
        if len(by_litert) != len(by_task) or any(
            size == 1 if known == -1 else size != known for size, known in zip(by_litert, by_task, strict=True)
        ):
            raise ArtifactError(f"neither the task nor CompiledModel tells the size of {name} before it is computed")
        return by_litert

    def close(self) -> None:
        self._written = self._read = []
        self._model = None


def _copied(array: np.ndarray) -> np.ndarray:
    """An array as LiteRT's buffers take its bytes."""
    return array.view(_HALVES.get(array.dtype.name, array.dtype))
