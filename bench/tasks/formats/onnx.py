"""An `.onnx` file. It holds data alone; what it leaves open of its shapes is found by running it once."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import UNKNOWN, TensorSpec
from bench.graphs.file import foreign
from bench.tasks import sizes
from bench.tasks.options import Asked, Found
from bench.tasks.user_task import OwnTask

if TYPE_CHECKING:
    import numpy as np

WEIGHTS = "model.onnx"
NOT_RUN = "it could not be tried here, so no size was checked: {}"


class OnnxTask(OwnTask):
    """A task that is an ONNX file beside `task.py`: generated inputs, and its own outputs as the truth.

    The reference is the file as it is on plain ONNX Runtime; what is told of every other cell is how far its outputs
    are from that, in decibels, not how good the model is. A subclass states its inputs and outputs, and may bring
    samples of its own.
    """

    sources = ("onnx",)
    weights = WEIGHTS


def examine(path: Path, folder: Path, asked: Asked) -> Found:
    """Copy the file with all that belongs to it, and find out what it takes and gives.

    Raises:
        InputError: it is no model that can be fed and compared, or what was asked for is not of it.
    """
    told = foreign.inspect(path)
    target = folder / WEIGHTS
    if told["data"] or told["rewritten"]:
        foreign.embed(path, target)
    else:
        shutil.copyfile(path, target)
    inputs, stated = (
        tuple(TensorSpec(name=spec["name"], dtype=spec["dtype"], shape=tuple(spec["shape"])) for spec in told[side])
        for side in ("inputs", "outputs")
    )
    notes = list(told["rewritten"])
    given = sizes.given_sizes(inputs, asked)
    chosen: Mapping[str, int] = next(sizes.guesses(inputs, given))
    outputs = stated
    try:
        chosen, outputs = _tried(target, inputs, stated, given, asked)
    except sizes.NothingRunsError as error:  # each row will tell why: another runtime may do it
        notes.append(NOT_RUN.format(error))
    batched = foreign.batch_of([spec.shape for spec in (*inputs, *outputs)]) is not None
    return Found(
        base="bench.tasks.formats.onnx:OnnxTask",
        weights=WEIGHTS,
        inputs=inputs,
        outputs=outputs,
        batched=batched,
        notes=tuple(notes),
        **sizes.chosen_sizes(inputs, chosen, given, batched=batched),
    )


def _tried(
    path: Path, inputs: tuple[TensorSpec, ...], stated: tuple[TensorSpec, ...], given: Mapping[str, int], asked: Asked
) -> tuple[Mapping[str, int], tuple[TensorSpec, ...]]:
    """Sizes with which the model runs, and its outputs with what it left open of their shapes."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise sizes.NothingRunsError(sizes.one_line(error)) from error
    names = [spec.name for spec in stated]

    def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(names, session.run(names, dict(feeds)), strict=True))

    chosen, found = sizes.try_out(run, inputs, given, asked)
    return chosen, tuple(_merged(spec, seen) for spec, seen in zip(stated, found.outputs, strict=True))


def _merged(stated: TensorSpec, seen: TensorSpec) -> TensorSpec:
    """What a file says of an output, and what was seen of it where that is nothing."""
    fields: dict[str, Any] = {"name": stated.name, "dtype": stated.dtype}
    if len(stated.shape) != len(seen.shape):
        return TensorSpec(**fields, shape=seen.shape)
    # A size that was the same each time may be another with other data; a dimension that followed another does.
    pairs = zip(stated.shape, seen.shape, strict=True)
    return TensorSpec(
        **fields, shape=tuple(dim if dim != UNKNOWN or isinstance(other, int) else other for dim, other in pairs)
    )
