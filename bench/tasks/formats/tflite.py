"""A `.tflite` file. It holds data alone, no code."""

from __future__ import annotations

from pathlib import Path

from bench.api import Arrays
from bench.tasks import probe, sizes
from bench.tasks.failures import refused
from bench.tasks.formats import Format
from bench.tasks.options import Asked, Found
from bench.tasks.user_task import OwnTask

FORMAT = Format(described="a .tflite file", suffixes=(".tflite",))


class TfLiteTask(OwnTask):
    """A TFLite file as it is."""

    sources = ("tflite",)
    requires = ("ai_edge_litert",)
    extra = "litert"
    weights = "model.tflite"


def examine(path: Path, folder: Path, asked: Asked) -> Found:
    """Open the file and run it once to learn its outputs.

    Raises:
        InputError: LiteRT cannot open the file, or the model does not run.
    """
    from ai_edge_litert.interpreter import Interpreter

    from bench.plugins.engines.litert import LiteRtSession, ports

    with refused("it is not a TFLite file, or one that LiteRT cannot open"):
        interpreter = Interpreter(str(path), num_threads=1)
    inputs, outputs = ports(interpreter)
    session = LiteRtSession(interpreter, list(inputs), list(outputs))
    fields = [
        (name, detail["dtype"].__name__, [None if dim < 0 else int(dim) for dim in detail["shape_signature"]])
        for name, detail in inputs.items()
    ]

    def run(feeds: Arrays) -> Arrays:
        return dict(zip(outputs, session.run(feeds), strict=True))

    return sizes.choose(TfLiteTask, run, probe.specs_of(fields), asked)
