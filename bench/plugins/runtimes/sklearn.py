"""scikit-learn itself, and XGBoost and LightGBM behind its interface."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.api import Arrays, Outputs, Runtime, Session, Task
from bench.plugins.engines import estimators


class SklearnSession(Session):
    """Calls the method of a fitted estimator that gives the task's only output.

    Args:
        estimator: the estimator.
        output: name of the output.
        at_end: called when the session is closed.
    """

    def __init__(self, estimator: Any, output: str, at_end: Callable[[], None]) -> None:
        self._call: Any = estimators.method(estimator, output)
        self._at_end = at_end
        self._dtype = estimators.DTYPES[output]
        self._made = "float64"

    @property
    def precision(self) -> str | None:  # type: ignore[override]
        """The type of the numbers that the estimator gave last; None where it gave labels."""
        return self._made if self._made.startswith("float") else None

    def run(self, feeds: Arrays) -> Outputs:
        output = self._call(feeds[estimators.INPUT])
        self._made = output.dtype.name
        return [output.astype(self._dtype, copy=False)]

    def close(self) -> None:
        self._call = None
        self._at_end()


class Sklearn(Runtime):
    """Opens pickles of estimators; every estimator in them that has `n_jobs` takes the number of threads."""

    title = "scikit-learn"
    requires = ("sklearn", "joblib")
    extra = "sklearn"
    formats = ("sklearn",)
    default_for = ("sklearn",)

    def builds(self, artifact: Path) -> bool:
        return True

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        import joblib

        # Estimators that were fitted to tables with named columns warn at each call that an array has no names.
        warnings.simplefilter("ignore")
        # By default some estimators would start processes, whose memory and time are not the worker's.
        config = joblib.parallel_config(backend="threading")
        estimator = task.build(source, artifact)
        for part in estimators.parts(estimator):
            if hasattr(part, "n_jobs"):
                part.set_params(n_jobs=threads)
        return SklearnSession(estimator, task.outputs[0].name, config.unregister)
