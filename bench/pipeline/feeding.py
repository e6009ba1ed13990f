"""Requests cut from the samples of a split, and inference on a whole split."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.api import Arrays, Outputs, Samples, Task
from bench.api.errors import ArtifactError, InputError
from bench.graphs.deferred import np


def feeds(task: Task, inputs: Arrays, rows: Sequence[int]) -> dict[str, np.ndarray]:
    """The input arrays of one inference, by name, from samples of a split.

    Args:
        task: the task.
        inputs: input arrays of the split by name, with the samples along the first axis.
        rows: indices of the samples.

    Raises:
        InputError: the task takes one sample at a time, and there are more or fewer.
    """
    if task.batched:
        return {name: np.ascontiguousarray(array[list(rows)]) for name, array in inputs.items()}
    if len(rows) != 1:
        raise InputError(f"{task.name} takes one whole request at a time; the batch must be 1, not {len(rows)}")
    return {name: np.array(array[rows[0]]) for name, array in inputs.items()}


def run_all(run: Callable[[Arrays], Outputs], task: Task, samples: Samples, batch: int) -> dict[str, np.ndarray]:
    """Run inference on every sample of a split, in batches of exactly `batch` samples.

    The last batch is padded with its last sample, and the outputs of the padding are removed.

    Args:
        run: runs one inference, and returns the outputs in the task's order.
        task: the task.
        samples: the split.
        batch: number of samples in an inference.

    Returns:
        Output arrays by name, with the samples along the first axis.

    Raises:
        ArtifactError: the outputs of different samples have different shapes.
        ValueError: `run` returns another number of outputs than the task has.
    """
    names = [spec.name for spec in task.outputs]
    parts: list[list[np.ndarray]] = [[] for _ in names]
    for start in range(0, samples.num_samples, batch):
        end = min(start + batch, samples.num_samples)
        rows = [*range(start, end), *[end - 1] * (batch - (end - start))]
        outputs = run(feeds(task, samples.inputs, rows))
        if len(outputs) != len(names):
            raise ValueError(f"{len(outputs)} outputs; the task has {len(names)}: {', '.join(names)}")
        for part, output in zip(parts, outputs, strict=True):
            part.append(np.array(output)[: end - start] if task.batched else np.array(output)[None])
    for name, part in zip(names, parts, strict=True):
        if len(shapes := {output.shape[1:] for output in part}) > 1:
            first, second, *_ = sorted(shapes)
            raise ArtifactError(f"output {name} has shape {first} for some samples and {second} for others")
    return {name: np.concatenate(part) for name, part in zip(names, parts, strict=True)}
