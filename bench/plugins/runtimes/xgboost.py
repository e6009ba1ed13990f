"""XGBoost, for models in its own files."""

from __future__ import annotations

from pathlib import Path

from bench.api import Runtime, Session, Task
from bench.onnxfile.deferred import np
from bench.plugins.engines import boosters
from bench.plugins.engines.calls import CallSession


class XGBoost(Runtime):
    """Predicts from arrays in place, without a `DMatrix`."""

    title = "XGBoost"
    requires = ("xgboost",)
    extra = "sklearn"
    formats = ("xgboost",)
    default_for = ("xgboost",)

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        booster = boosters.open_xgboost(artifact)
        booster.set_param({"nthread": threads})
        output = task.outputs[0].name

        def call(features: np.ndarray) -> np.ndarray:
            return boosters.as_output(booster.inplace_predict(features), output)

        return CallSession(call, task, tensor=np.asarray, array=np.asarray)
