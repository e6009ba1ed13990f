"""Requests cut from the samples of a split: those that are timed, and inference on the whole split."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.api import Arrays, Outputs, Samples, Task, ragged
from bench.api.arrays import load_arrays, save_arrays, without_objects
from bench.api.errors import ArtifactError, InputError
from bench.onnxfile.deferred import np

_MOST_REQUESTS = 16
MOST_BYTES = 1 << 26
"""Largest size of all timed requests together: workers of a block hold them at the same time."""


def timed(task: Task, inputs: Arrays, batch: int) -> list[dict[str, np.ndarray]]:
    """The requests whose latency is measured: samples of the split in a random order, which is always the same.

    Args:
        task: the task.
        inputs: input arrays of the split by name, with the samples along the first axis.
        batch: number of samples in a request.

    Returns:
        One request where the task says so; otherwise as many as the split has, at most `_MOST_REQUESTS`, and no more
        than fit into `MOST_BYTES`. Where the split has fewer samples than a request, they repeat.
    """
    num_samples = len(next(iter(inputs.values())))
    order = drawn(num_samples)
    request_bytes = batch * sum(array.nbytes for array in inputs.values()) // num_samples
    wanted = 1 if task.one_input else min(_MOST_REQUESTS, -(-num_samples // batch))
    fitting = max(1, MOST_BYTES // max(1, request_bytes))
    return [
        feeds(task, inputs, [order[(start + row) % num_samples] for row in range(batch)])
        for start in range(0, min(wanted, fitting) * batch, batch)
    ]


def drawn(num_samples: int) -> list[int]:
    """The samples of a split in an order that looks drawn by lot and is the same for every version of everything."""
    # By hashes rather than by a generator of random numbers, whose order another version may change.
    return sorted(range(num_samples), key=lambda row: hashlib.sha256(str(row).encode()).digest())


def rows_of(arrays: Arrays, rows: Sequence[int]) -> dict[str, np.ndarray]:
    """The rows with these indices of arrays that have the samples along their first axis."""
    return {name: array[list(rows)] for name, array in arrays.items()}


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
        Output arrays by name, with the samples along the first axis, or as `bench.api.ragged` has them where shapes
        follow from the data of the samples.

    Raises:
        ArtifactError: the first axis of an output is not that of the samples, though the task says so.
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
        for name, part, output in zip(names, parts, outputs, strict=True):
            array = without_objects(np.array(output))
            if task.batched and array.shape[:1] != (batch,):
                raise ArtifactError(
                    f"output {name} has shape {array.shape} for a batch of {batch}: its first axis is not that of the "
                    "samples"
                )
            part.append(array[: end - start] if task.batched else array[None])
    return {name: ragged.joined(part) for name, part in zip(names, parts, strict=True)}


def save_outputs(path: Path, outputs: Arrays) -> None:
    """Write the outputs of a split to an `.npz` file, whatever their shapes."""
    save_arrays(path, ragged.packed(outputs))


def load_outputs(path: Path) -> dict[str, np.ndarray]:
    """Read the outputs that `save_outputs` wrote.

    Raises:
        InputError: the file cannot be read.
    """
    return ragged.unpacked(load_arrays(path))
