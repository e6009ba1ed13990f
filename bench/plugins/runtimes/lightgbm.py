"""LightGBM, for models in its own text files."""

from __future__ import annotations

from pathlib import Path

from bench.api import Runtime, Session, Task
from bench.onnxfile.deferred import np
from bench.plugins.engines import boosters
from bench.plugins.engines.calls import CallSession


class LightGbm(Runtime):
    """Predicts from arrays; LightGBM compares and adds numbers in float64."""

    title = "LightGBM"
    requires = ("lightgbm",)
    extra = "sklearn"
    formats = ("lightgbm",)
    default_for = ("lightgbm",)

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        booster = boosters.open_lightgbm(artifact)
        output = task.outputs[0].name

        def call(features: np.ndarray) -> np.ndarray:
            return boosters.as_output(booster.predict(features, num_threads=threads), output)

        return CallSession(call, task, tensor=np.asarray, array=np.asarray, precision="float64")
