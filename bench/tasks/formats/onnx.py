"""An `.onnx` file. It holds data alone; shapes that it leaves open are found by running it once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from bench.api import UNKNOWN, Arrays, TensorSpec
from bench.graphs.deferred import onnxruntime
from bench.graphs.file import foreign
from bench.graphs.sessions import cpu_session
from bench.tasks import sizes
from bench.tasks.failures import one_line
from bench.tasks.formats import Format
from bench.tasks.options import Asked, Found, Interface
from bench.tasks.user_task import OwnTask

FORMAT = Format(described="an .onnx file", suffixes=(".onnx",))


class OnnxTask(OwnTask):
    """A task that is an ONNX file beside `task.py`: generated inputs, and its own outputs as the truth.

    The reference is the file as it is on plain ONNX Runtime. The quality of every other cell is the distance of its
    outputs from the reference's in decibels, not how good the model is. A subclass states its inputs and outputs, and
    may bring samples of its own.
    """

    sources = ("onnx",)
    weights = "model.onnx"


def examine(path: Path, folder: Path, asked: Asked) -> Found:
    """Embed the external data of the file, and run it to learn the sizes and outputs that it leaves open.

    A model that does not run here is taken as it states itself, with a note: another runtime may run it.

    Raises:
        InputError: the file is no model that can be fed and compared, or the sizes asked for are not the model's.
    """
    told = foreign.inspect(path)
    model = path
    if told["data"] or told["rewritten"]:
        model = folder / OnnxTask.weights
        foreign.embed(path, model)
    inputs, stated = (tuple(TensorSpec(**spec) for spec in told[side]) for side in ("inputs", "outputs"))
    notes = list(told["rewritten"])
    given = sizes.given_sizes(inputs, asked)
    chosen: Mapping[str, int] = next(sizes.guesses(inputs, given))
    outputs = stated
    try:
        chosen, outputs = _tried(model, inputs, stated, given, asked)
    except sizes.NothingRunsError as error:
        notes.append(f"it could not be tried here, so no size was checked: {error}")
    batched = foreign.is_batched([spec.shape for spec in (*inputs, *outputs)])
    interface = Interface(inputs=inputs, outputs=outputs, batched=batched)
    return interface.found(OnnxTask, notes=tuple(notes), sizes=chosen, given=given)


def _tried(
    path: Path, inputs: tuple[TensorSpec, ...], stated: tuple[TensorSpec, ...], given: Mapping[str, int], asked: Asked
) -> tuple[Mapping[str, int], tuple[TensorSpec, ...]]:
    """Sizes with which the model runs, and its outputs, whose unknown dimensions are completed by the run.

    Raises:
        NothingRunsError: ONNX Runtime cannot open the file, or the model runs with no size that was tried.
    """
    onnxruntime.set_default_logger_severity(4)
    try:
        session = cpu_session(path, optimized=True)
    except Exception as error:
        raise sizes.NothingRunsError(one_line(error)) from error
    names = [spec.name for spec in stated]

    def run(feeds: Arrays) -> Arrays:
        return dict(zip(names, session.run(names, dict(feeds)), strict=True))

    chosen, found = sizes.try_out(run, inputs, given, asked)
    return chosen, tuple(_merged(spec, seen) for spec, seen in zip(stated, found.outputs, strict=True))


def _merged(stated: TensorSpec, seen: TensorSpec) -> TensorSpec:
    """The output that a file states, with the dimensions of the output of a run where the file states none.

    A seen size may be another with other data, so only names complete a shape of the same rank.
    """
    shape = seen.shape
    if len(stated.shape) == len(seen.shape):
        pairs = zip(stated.shape, seen.shape, strict=True)
        shape = tuple(dim if dim != UNKNOWN or isinstance(other, int) else other for dim, other in pairs)
    return dataclasses.replace(stated, shape=shape)
