"""A `.tflite` file. It holds data alone, no code."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.api import UNKNOWN, Arrays, TensorSpec
from bench.onnxfile.file.foreign import is_batched
from bench.tasks import ending, probe, sizes, tf_training, tflite_names
from bench.tasks.failures import refused
from bench.tasks.formats import Format
from bench.tasks.options import Asked, Found, Interface
from bench.tasks.user_task import OwnTask

FORMAT = Format(described="a .tflite file", suffixes=(".tflite",), imports=("ai_edge_litert.interpreter",))


class TfLiteTask(OwnTask):
    """A TFLite file as it is."""

    sources = ("tflite",)
    requires = ("ai_edge_litert",)
    extra = "litert"
    weights = "model.tflite"


def examine(path: Path, folder: Path, options: Asked) -> Found:
    """Open the file and run it once to learn its outputs.

    A model that runs for ever is taken as it states itself, with a note: then its cells are rows with that reason.

    Raises:
        InputError: LiteRT cannot open the file, or the model does not run.
    """
    from ai_edge_litert.interpreter import Interpreter

    from bench.plugins.engines.litert import LiteRtSession, ports

    tflite_names.check(path)
    with refused(tflite_names.NO_MODEL):
        interpreter = Interpreter(str(path), num_threads=1)
    inputs, outputs = ports(interpreter)
    session = LiteRtSession(interpreter, path, list(inputs), list(outputs))
    specs, deadline = probe.specs_of(_fields(inputs)), time.monotonic() + options.try_s

    def run(feeds: Arrays) -> Arrays:
        arrays = ending.within(options.try_s, deadline, lambda: session.run(feeds))
        return dict(zip(outputs, arrays, strict=True))

    try:
        facts = sizes.choose(TfLiteTask, run, specs, options)
        operators = interpreter._get_ops_details()
        return facts.telling(tf_training.of_operators((each["op_name"], "") for each in operators))
    except sizes.NothingRunsError as error:
        if not isinstance(error.__cause__, TimeoutError):
            raise
        note = f"no run has checked the sizes of its inputs: {error}"
    user_sizes = sizes.given_sizes(specs, options)
    stated = tuple(
        TensorSpec(name=name, dtype=dtype, shape=tuple(UNKNOWN if dim is None else dim for dim in dims))
        for name, dtype, dims in _fields(outputs)
    )
    interface = Interface(inputs=specs, outputs=stated, batched=is_batched([spec.shape for spec in (*specs, *stated)]))
    return interface.facts(
        TfLiteTask, sizes=sizes.chosen(specs, user_sizes, options).values, user_sizes=user_sizes, notes=(note,)
    )


def _fields(ports: Mapping[str, Any]) -> list[tuple[str, str, list[int | None]]]:
    """The name, the type and the sizes of each port; None for a size that the file leaves open."""
    return [
        (name, detail["dtype"].__name__, [None if dim < 0 else int(dim) for dim in detail["shape_signature"]])
        for name, detail in ports.items()
    ]
