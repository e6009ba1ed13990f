"""The user's request about a model besides its path, and the facts that the model's examination found."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.api import Arrays, TensorSpec
from bench.onnxfile.deferred import np
from bench.onnxfile.file import training
from bench.onnxfile.file.training import Unsettled
from bench.onnxfile.shapes.size_choice import Chosen
from bench.onnxfile.shapes.size_options import GivenShape
from bench.onnxfile.shapes.stated_sizes import stated
from bench.tasks.user_task import OwnTask


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """The user's request about a model.

    Attributes:
        dims: sizes of dynamic dimensions by name.
        shapes: shapes of inputs, by name of the input.
        trust: whether code in the file may run.
        arrays: samples by input name, the samples along the first axis; None without a data set.
        crashed: how the processes ended that examined the model before, in order, such as `killed by SIGSEGV`.
        try_s: seconds in which the model may be run, where its format can end a run; the time for all is the parent's.
    """

    dims: Mapping[str, int] = dataclasses.field(default_factory=dict)
    shapes: Mapping[str, GivenShape] = dataclasses.field(default_factory=dict)
    trust: bool = False
    arrays: Mapping[str, np.ndarray] | None = None
    crashed: tuple[str, ...] = ()
    try_s: float = math.inf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interface:
    """The inputs and outputs of a model, and whether its first axis is that of the samples (see `Task.batched`)."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batched: bool

    def facts(
        self, task: type[OwnTask], *, sizes: Mapping[str, int] = {}, user_sizes: Mapping[str, int] = {}, **more: Any
    ) -> Found:
        """The facts about a model with this interface.

        Args:
            task: the class of the model's task.
            sizes: sizes by name with which the model runs, those of the batch and of fixed dimensions included.
            user_sizes: sizes by name that the user gave.
            more: the other fields of `Found`.
        """
        shapes = [spec.shape[1:] if self.batched else spec.shape for spec in self.inputs]
        known = stated(dim for shape in shapes for dim in shape if isinstance(dim, str))
        dynamic_sizes = {dim: size for dim, size in sizes.items() if dim in known.sizes or dim in known.dims}
        user_sizes = {dim: size for dim, size in user_sizes.items() if dim in dynamic_sizes}
        chosen = Chosen(
            stated=known,
            given=user_sizes,
            sizes={dim: dynamic_sizes[dim] for dim in known.dims if dim in dynamic_sizes},
        )
        return Found(task=task, **vars(self), sizes=dynamic_sizes, chosen=chosen, **more)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found(Interface):
    """The facts that the examination of a model found.

    Attributes:
        task: the class of its task.
        sizes: the size of each dynamic dimension of the inputs but the batch, by name.
        chosen: the same sizes, with those that the user gave.
        attributes: more class attributes of the task.
        example: arrays by input name that samples should be like; the samples along the first axis.
        notes: lines to tell the user.
        files: files outside the task's folder that the model was read from.
        run: runs the model once: output arrays by name, for input arrays by name; None where it does not run here.
        labels: the classes of its only output in the order of their scores, as the model itself names them; or empty.
    """

    task: type[OwnTask]
    sizes: Mapping[str, int]
    chosen: Chosen
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    example: Mapping[str, np.ndarray] | None = None
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    run: Callable[[Arrays], Arrays] | None = None
    labels: tuple[int, ...] | tuple[str, ...] = ()

    @property
    def guessed(self) -> dict[str, int]:
        """Those of the sizes that nobody gave, and that do not follow from what was given."""
        return self.chosen.guessed

    def telling(self, nodes: Iterable[Unsettled] = ()) -> Found:
        """The same with sentences about nodes in training mode, which are told first and kept for the task's rows.

        Where no node is to blame, notes about outputs that differ between two runs are kept for the rows.
        """
        lines = training.sentences(nodes)
        row_notes = lines or tuple(note for note in self.notes if training.DIFFERS in note)
        if not row_notes:
            return self
        attributes = {**self.attributes, "unsettled": row_notes}
        return dataclasses.replace(self, attributes=attributes, notes=(*lines, *self.notes))
