"""Estimators with scikit-learn's interface: their only input, their output, and the estimators that they hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.onnxfile.deferred import np

INPUT = "features"
"""Name of the only input: a table of float32 numbers with a sample in each row, (N, F)."""
NUM_TRIED = 64
"""Samples that tell whether outputs say little: a single one often ends in leaves of one class."""
PROBABILITIES, LABEL, PREDICTION, TRANSFORMED = "probabilities", "label", "prediction", "transformed"
METHODS = {
    PROBABILITIES: "predict_proba",
    LABEL: "predict",
    PREDICTION: "predict",
    TRANSFORMED: "transform",
}
"""The method of an estimator that gives each output."""
DTYPES = {PROBABILITIES: "float32", LABEL: "int64", PREDICTION: "float32", TRANSFORMED: "float32"}
"""NumPy's names of the element types of each output, which are those of the ONNX files of estimators."""


def load(path: Path) -> Any:
    """The estimator of a pickle; of a search, the best estimator. Unpickling runs whatever code the file names."""
    import joblib

    loaded = joblib.load(path)
    return getattr(loaded, "best_estimator_", loaded)


def parts(estimator: Any) -> list[Any]:
    """An estimator and all estimators that it holds in its attributes, such as the steps of a pipeline, each once."""
    estimators: dict[int, Any] = {}

    def visit(item: Any) -> None:
        if isinstance(item, dict):
            item = list(item.values())
        if isinstance(item, (list, tuple)):
            for inner in item:
                visit(inner)
        elif hasattr(type(item), "get_params") and id(item) not in estimators:
            estimators[id(item)] = item
            visit(vars(item))

    visit(estimator)
    return list(estimators.values())


def output_of(estimator: Any, features: np.ndarray) -> str:
    """The output that is measured: the probabilities of classes, else labels or predictions, else new features.

    Args:
        features: a table to try `predict` on, (N, F) float32.

    Raises:
        TypeError: the estimator neither predicts nor transforms, or its labels are texts and have no probabilities.
    """
    if hasattr(estimator, "predict_proba"):
        return PROBABILITIES
    if hasattr(estimator, "predict"):
        kind = np.asarray(estimator.predict(features)).dtype.kind
        if kind not in "fiub":
            raise TypeError("its predictions are no numbers, and it has no predict_proba")
        return PREDICTION if kind == "f" and not hasattr(estimator, "classes_") else LABEL
    if hasattr(estimator, "transform"):
        return TRANSFORMED
    raise TypeError(f"{type(estimator).__name__} has neither predict nor transform")


def method(estimator: Any, output: str) -> Callable[[np.ndarray], np.ndarray]:
    """The function from a table of features to an output, both with N rows, in the dtype that the estimator gives.

    It raises a TypeError where the estimator answers with a list of arrays, one for each of several targets.
    """
    bound = getattr(estimator, METHODS[output])

    def call(features: np.ndarray) -> np.ndarray:
        answer = bound(features)
        if isinstance(answer, list):
            raise TypeError(f"{METHODS[output]} gives a list of {len(answer)} arrays, one for each of several targets")
        return np.asarray(answer.toarray() if hasattr(answer, "toarray") else answer)

    return call
