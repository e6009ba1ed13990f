"""What a person asked for of a model besides its path, and what examining the model told of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.api import Task, TensorSpec
from bench.graphs.deferred import np
from bench.graphs.shapes.given import GivenShape


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """What a person asked for.

    Attributes:
        dims: sizes of dynamic dimensions by name.
        shapes: of inputs, by name.
        trust: whether code in the file may run.
        arrays: samples by input name, the samples along the first axis; None without a data set.
    """

    dims: Mapping[str, int] = dataclasses.field(default_factory=dict)
    shapes: Mapping[str, GivenShape] = dataclasses.field(default_factory=dict)
    trust: bool = False
    arrays: Mapping[str, np.ndarray] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interface:
    """The inputs and outputs of a model, and whether its first axis is that of the samples (see `Task.batched`)."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batched: bool

    def found(self, task: type[Task], **more: Any) -> Found:
        """All that is told of the model whose task has this class; `more` are the other fields of `Found`."""
        assert task.weights is not None, "a user's own model has a weights file"
        return Found(base=f"{task.__module__}:{task.__name__}", weights=task.weights, **vars(self), **more)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found(Interface):
    """What a model turned out to be.

    Attributes:
        base: the class of its task, as `bench.tasks.formats.keras:KerasTask`.
        weights: the file that was written into the task's folder.
        sizes: what stands for each dynamic dimension of the inputs but the batch.
        guessed: names of the dimensions whose sizes nobody gave.
        attributes: more class attributes of the task.
        example: arrays by input name that samples should be like; the samples along the first axis.
        notes: lines to tell the person.
        files: files outside the task's folder that the model was read from.
    """

    base: str
    weights: str
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    guessed: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    example: Mapping[str, np.ndarray] | None = None
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
