"""A runtime whose program adds 1 to its input, see `support.adding_program`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from bench.api import TensorSpec
from bench.api.program import ProgramRuntime, ProgramSession
from support import small_models

PROGRAM = Path(__file__).with_name("adding_program.py")
SPEC = TensorSpec(name="x", dtype="float32", shape=("batch", 3))


class AddingTask(small_models.SmallTask):
    inputs = (SPEC,)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", 3)),)


class Adding(ProgramRuntime):
    formats = ("onnx",)
    options = dict.fromkeys(("refuse", "crash", "exit", "print", "hang", "kill", "memory", "nothing"), "misbehaves")

    def command(self) -> list[str]:
        return [sys.executable, "-P", str(PROGRAM)]

    def files(self) -> list[Path]:
        return [PROGRAM]


def opened(provider: str = "cpu") -> ProgramSession:
    session = Adding(name="adding", path=Path("adding.py")).open(
        Path("any.onnx"), task=small_models.make_task(AddingTask), source="torch", provider=provider, threads=1
    )
    assert isinstance(session, ProgramSession)
    return session


def run_as(provider: str) -> dict[str, float]:
    """In a worker: one inference of a program that misbehaves."""
    (output,) = opened(provider).run({"x": np.zeros((1, 3), np.float32)})
    return {"sum": float(output.sum())}
