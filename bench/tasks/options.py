"""What a person said of a model besides its path, and what was found of it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import TensorSpec
from bench.api.errors import InputError

if TYPE_CHECKING:
    import numpy as np

SHAPE = re.compile(
    r"(?P<name>.+)=(?P<sizes>[1-9]\d*(x[1-9]\d*)*|)(:(?P<dtype>float(16|32|64)|u?int(8|16|32|64)|bool))?"
)
DIM = re.compile(r"(?P<name>.+)=(?P<size>[1-9]\d*)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GivenShape:
    """The shape of one input of one request, and its dtype where it was said, too."""

    sizes: tuple[int, ...]
    dtype: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """What was asked for.

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
class Found:
    """What a model turned out to be.

    Attributes:
        base: the class of its task, as `bench.tasks.formats.keras:KerasTask`.
        weights: the file that was written into the task's folder.
        sizes: what stands for each dynamic dimension of the inputs but the batch.
        guessed: which of them nobody said.
        attributes: more class attributes of the task.
        example: arrays by input name that samples should be like; the samples along the first axis.
        notes: lines to tell the person.
        files: files outside the folder that it was made from.
    """

    base: str
    weights: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batched: bool
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    guessed: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    example: Mapping[str, np.ndarray] | None = None
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()


def dims_from(texts: Iterable[str]) -> dict[str, int]:
    """Sizes by name, from texts such as `seq=128`."""
    found = {}
    for text in texts:
        match = DIM.fullmatch(text)
        if match is None:
            raise InputError(f"not a size of a dimension: {text!r}; write --dim height=224")
        found[match["name"]] = int(match["size"])
    return found


def shapes_from(texts: Iterable[str]) -> dict[str, GivenShape]:
    """Shapes by name, from texts such as `image=1x3x224x224` or `tokens=1x16:int64`."""
    found = {}
    for text in texts:
        match = SHAPE.fullmatch(text)
        if match is None:
            raise InputError(f"not a shape of an input: {text!r}; write --shape image=1x3x224x224 or tokens=1x16:int64")
        sizes = tuple(int(size) for size in match["sizes"].split("x") if size)
        found[match["name"]] = GivenShape(sizes=sizes, dtype=match["dtype"])
    return found
