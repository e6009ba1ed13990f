"""The inputs that an ONNX model is fed for a sample of a task."""

from __future__ import annotations

from bench.api import Arrays, Task
from bench.onnxfile.deferred import np
from bench.onnxfile.shapes.dims import Shape, symbol


def sample_feeds(task: Task, inputs: Arrays, row: int, *, batch: int = 1) -> dict[str, np.ndarray]:
    """The inputs of one run, with the dtypes that the task declares.

    Args:
        inputs: samples by name of the input.
        row: index of the first sample to feed; after the last sample, the first sample follows.
        batch: number of samples to feed where the task does not fix it.
    """
    feeds = {}
    for spec in task.inputs:
        rows: range | int = row  # without a batch, one sample is a whole request
        if task.batched:
            rows = range(row, row + (spec.shape[0] if isinstance(spec.shape[0], int) else batch))
        feeds[spec.name] = np.asarray(np.take(inputs[spec.name], rows, axis=0, mode="wrap"), spec.dtype)
    return feeds


def sample_shapes(task: Task) -> dict[str, Shape]:
    """Shapes of a task's inputs by name: the sizes of its samples, with the batch as a symbol."""
    inputs = task.samples("test").inputs
    shapes: dict[str, Shape] = {}
    for spec in task.inputs:
        first = spec.shape[:1] if task.batched else ()
        batch = tuple(symbol(dim) if isinstance(dim, str) else dim for dim in first)
        shapes[spec.name] = (*batch, *inputs[spec.name].shape[1:])
    return shapes
