"""Whether a point lies within a circle, told by two layers that draw an octagon: a task without a framework.

Shapes: N samples.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import Arrays, Points, Samples, Task, TensorSpec
from bench.api.errors import InputError

if TYPE_CHECKING:
    import numpy as np


RADIUS = 0.75
NUM_SAMPLES = 1000
SEEDS = {"train": 1, "test": 2}


class Octagon(Task):
    """Scores of two classes, within and outside. The first layer is how far a point lies beyond each of eight sides."""

    sources = ("numpy",)
    inputs = (TensorSpec(name="points", dtype="float32", shape=("batch", 2)),)
    outputs = (TensorSpec(name="scores", dtype="float32", shape=("batch", 2)),)
    weights = "weights.json"
    packages = ("numpy",)
    metric_name = "accuracy"
    max_metric_loss = 0.3  # what is worse than this tells nothing of the circle any more

    def build(self, source: str, weights: Path) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pairs of a weight (inputs, outputs) and a bias (outputs), first to last."""
        import numpy as np

        layers = json.loads(weights.read_text())["layers"]
        return [(np.array(layer["weight"], np.float32), np.array(layer["bias"], np.float32)) for layer in layers]

    def samples(self, split: str) -> Samples:
        """Points (N, 2) of a square, and the class of each."""
        import numpy as np

        if split not in SEEDS:
            raise InputError(f"no split {split!r}; there are: {', '.join(SEEDS)}")
        points_N2 = np.random.default_rng(SEEDS[split]).uniform(-1, 1, (NUM_SAMPLES, 2)).astype(np.float32)
        is_outside_N = np.hypot(points_N2[:, 0], points_N2[:, 1]) > RADIUS
        return Samples(inputs={"points": points_N2}, targets=[int(is_outside) for is_outside in is_outside_N])

    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        """Mean cross-entropy."""
        import numpy as np

        scores_N2 = outputs["scores"].astype(np.float64)
        right_N = scores_N2[np.arange(len(targets)), targets]
        return float(np.mean(np.logaddexp(scores_N2[:, 0], scores_N2[:, 1]) - right_N))

    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        """`accuracy`: the share of points whose class has the higher score."""
        import numpy as np

        return {"accuracy": float(np.mean(outputs["scores"].argmax(axis=1) == np.asarray(targets)))}

    def points(self, outputs: Arrays, targets: Sequence[Any]) -> Points | str:
        """One point for each point whose class is right: from them follows how well the accuracy is known."""
        import numpy as np

        values = (outputs["scores"].argmax(axis=1) == np.asarray(targets)).astype(np.float64)
        return Points(values=values, score=float(values.mean()), most=1.0)
