"""The toy task: doubling eight numbers, for trying the harness in seconds without a framework."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.api import Arrays, Points, Samples, Task, TensorSpec
from bench.api.errors import InputError
from bench.onnxfile.deferred import np

_SEEDS = {"train": 1, "test": 2}
NUM_SAMPLES = 16
TOLERANCE = 1e-6


class Toy(Task):
    """y = 2 x, as a null artifact."""

    sources = ("null",)
    inputs = (TensorSpec(name="x", dtype="float32", shape=("batch", 8)),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", 8)),)
    weights = "weights.json"
    metric_name = "accuracy"
    close = 1e-6
    max_metric_loss = 0.01

    def build(self, source: str, weights: Path) -> Any:
        raise InputError(f"{self.name} has no model in a framework: its weights file is its native artifact")

    def samples(self, split: str) -> Samples:
        """Sixteen rows of eight numbers between 0 and 1, and their doubles."""
        if split not in _SEEDS:
            raise InputError(f"no split {split!r}; there are: {', '.join(_SEEDS)}")
        x = np.random.default_rng(_SEEDS[split]).random((NUM_SAMPLES, 8), dtype=np.float32)
        return Samples(inputs={"x": x}, targets=list(2 * x))

    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        """Mean squared error."""
        return float(np.mean((outputs["y"].astype(np.float64) - np.stack(targets)) ** 2))

    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        """`accuracy`: the share of samples whose eight numbers are all within 1e-6 of the targets."""
        return {"accuracy": float(np.mean(_is_right(outputs, targets)))}

    def points(self, outputs: Arrays, targets: Sequence[Any]) -> Points | str:
        values = _is_right(outputs, targets).astype(np.float64)
        return Points(values=values, score=float(values.mean()), most=1.0)


def _is_right(outputs: Arrays, targets: Sequence[Any]) -> np.ndarray:
    return np.abs(outputs["y"] - np.stack(targets)).max(axis=1) <= TOLERANCE
