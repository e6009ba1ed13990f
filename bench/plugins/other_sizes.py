"""A task at other sizes of its dynamic dimensions: the same model on samples that are cut or repeated.

What the task's metric says is true of samples as they are, so a task at other sizes is judged by fidelity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from bench.api import Samples, Task, lengths
from bench.api.arrays import repeated
from bench.api.errors import InputError
from bench.api.names import TaskName, spelled
from bench.onnxfile.shapes.stated_sizes import Stated, stated
from bench.plugins.view import ByFidelity

NUM_SAMPLES = 16
"""Samples of the split `test` that are kept: fidelity needs few."""


class Resized(ByFidelity):
    """A task at other sizes: `at`, those of dynamic dimensions by name."""

    at: Mapping[str, int]

    @property
    def differs_by(self) -> object:
        """See `View`."""
        return dict(self.at)

    def samples(self, split: str) -> Samples:
        """The task's samples (of `test` the first), cut or repeated along the dimensions with another size.

        Lengths of what has another size are cut, too; an input of that name beside others stays as it is.
        """
        number = NUM_SAMPLES if split == "test" else None
        samples = self.of.samples(split)
        more = {dim: size + 1 for dim, size in self.at.items()}
        most, beyond = lengths.domains(self.inputs, self.at), lengths.domains(self.inputs, more)
        cut = {name: largest for name, (_, largest) in most.items() if beyond[name][1] > largest}
        inputs = {}
        for spec in self.inputs:
            array = samples.inputs[spec.name][:number]
            first = 0 if self.batched else 1  # samples of whole requests have an axis more than the request
            for axis, dim in enumerate(spec.shape, start=first):
                if dim in self.at:
                    array = repeated(array, self.at[str(dim)], axis)
            inputs[spec.name] = array.clip(max=cut[spec.name]) if spec.name in cut else array
        return Samples(inputs=inputs, targets=None, names=samples.names[:number])


def resized(task: Task, sizes: Mapping[str, int]) -> Task:
    """The task at other sizes.

    Args:
        task: a task with dynamic dimensions.
        sizes: sizes by dimension, whose names may be spelled as in a task's name.

    Raises:
        InputError: the task has no such dimension besides its batch.
    """
    known = stated(_dynamic_dims(task))
    dims = {spelled(dim): dim for dim in (*known.sizes, *known.dims)}
    for dim in sizes:
        if spelled(dim) not in dims:
            listed = ", ".join(dims.values()) or "none"
            raise InputError(f"{task.name} has no dimension {dim!r} of any size; its dimensions of any size: {listed}")
    dim_sizes = {dims[spelled(dim)]: size for dim, size in sizes.items()}
    at = {**dim_sizes, **_following(task, known, dim_sizes)}
    return cast(Task, Resized(task, TaskName.parse(task.name).at(dim_sizes), at=at))


def _following(task: Task, known: Stated, dim_sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes that follow from those that are asked for, where they are others than the task's own.

    Raises:
        InputError: the sizes that are asked for contradict each other.
    """
    own: Mapping[str, int] = getattr(task, "sizes", {})
    if not known.following or not known.sizes.keys() <= own.keys():
        return {}
    from bench.onnxfile.shapes.size_choice import choose  # only here: each worker that is timed would import it

    values = choose(known, dim_sizes, own).values
    return {dim: size for dim, size in values.items() if dim in known.sizes and size != own[dim]}


def _dynamic_dims(task: Task) -> tuple[str, ...]:
    """Names of the dimensions of a task's inputs that may have any size, without the batch."""
    shapes = (spec.shape[1:] if task.batched else spec.shape for spec in task.inputs)
    batch = {spec.shape[0] for spec in task.inputs} if task.batched else set()
    return tuple(dict.fromkeys(dim for shape in shapes for dim in shape if isinstance(dim, str) and dim not in batch))
