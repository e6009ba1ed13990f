"""Models in XGBoost's and LightGBM's own files: how they are opened, and the output that each of them predicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import np
from bench.plugins.engines.estimators import DTYPES, LABEL, PREDICTION, PROBABILITIES


def open_xgboost(path: Path) -> Any:
    """The `xgboost.Booster` of a file in JSON or UBJSON, whatever the file's name ends in.

    A model whose training stopped early is cut to its best round, as XGBoost's estimators and the converters cut it.

    Raises:
        ArtifactError: the file holds no model.
    """
    import xgboost

    booster = xgboost.Booster()
    try:
        booster.load_model(bytearray(path.read_bytes()))  # of a path, the name's ending would say which of both it is
    except xgboost.core.XGBoostError as error:
        raise ArtifactError(str(error).partition("\n")[0]) from error  # the other lines are addresses in its library
    best = booster.attr("best_iteration")
    if best is not None and int(best) + 1 < booster.num_boosted_rounds():
        booster = booster[: int(best) + 1]
    return booster


def open_lightgbm(path: Path) -> Any:
    """The `lightgbm.Booster` of a text file."""
    import lightgbm

    return lightgbm.Booster(model_file=path)


def _xgboost_objective(booster: Any) -> str:
    """XGBoost's name of what a model was trained for, such as `binary:logistic`."""
    return str(json.loads(booster.save_config())["learner"]["objective"]["name"])


def xgboost_output(booster: Any) -> str:
    """The output that a model predicts."""
    outputs = {"binary:logistic": PROBABILITIES, "multi:softprob": PROBABILITIES, "multi:softmax": LABEL}
    return outputs.get(_xgboost_objective(booster), PREDICTION)


def lightgbm_output(booster: Any) -> str:
    """The output that a model predicts."""
    objective = booster.dump_model(num_iteration=1).get("objective", "")
    return PROBABILITIES if objective.startswith(("binary", "multiclass")) else PREDICTION


def as_output(predicted: np.ndarray, output: str) -> np.ndarray:
    """Predictions in the form of an output; of two classes, a booster gives the probability of the second alone."""
    if output == PROBABILITIES and predicted.ndim == 1:
        predicted = np.stack([1 - predicted, predicted], axis=1)
    return predicted.astype(DTYPES[output], copy=False)


def xgboost_estimator(booster: Any) -> Any:
    """The `XGBClassifier` or `XGBRegressor` of a model, which converters read: of a booster they guess the objective.

    The model's names of features are dropped: converters take no names but f0, f1 and so on.
    """
    import xgboost

    kind = xgboost.XGBRegressor if xgboost_output(booster) == PREDICTION else xgboost.XGBClassifier
    booster.set_attr(scikit_learn=None)  # says which class wrote the file: another class does not read it
    booster.feature_names = None
    estimator = kind()
    estimator.load_model(booster.save_raw())
    return estimator
