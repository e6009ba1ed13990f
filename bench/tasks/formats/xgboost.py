"""XGBoost's own file of a model, in JSON or UBJSON. It holds data alone, no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.api import Arrays
from bench.plugins.engines import boosters, feature_ranges
from bench.plugins.engines.estimators import INPUT
from bench.tasks import booster_files, xgboost_files
from bench.tasks.failures import refused
from bench.tasks.formats import Format
from bench.tasks.options import Asked, Found
from bench.tasks.user_task import OwnTask

NO_MODEL, ADVICE = "it is no model that XGBoost's save_model() wrote", "; write it anew with save_model()"
FORMAT = Format(described="an XGBoost .json or .ubj file", suffixes=(".json", ".ubj"))


class XGBoostTask(OwnTask):
    """An XGBoost model as it is, which takes a table of float32 numbers, a sample in each row."""

    sources = ("xgboost",)
    requires = ("xgboost",)
    extra = "sklearn"
    weights = "model.xgboost"

    def build(self, source: str, weights: Path) -> Any:
        return boosters.open_xgboost(weights)


def examine(path: Path, folder: Path, options: Asked) -> Found:
    """Open the file and run the model once to learn its output.

    Raises:
        InputError: XGBoost cannot open the file, or the model does not run.
    """
    booster_files.check(xgboost_files.check, path, NO_MODEL, advice=ADVICE)
    with refused(NO_MODEL):
        booster = boosters.open_xgboost(path)
        output = boosters.xgboost_output(booster)
        ranges = feature_ranges.of_xgboost(booster)

    def run(feeds: Arrays) -> Arrays:
        return {output: boosters.as_output(booster.inplace_predict(feeds[INPUT]), output)}

    return booster_files.facts_of(XGBoostTask, run, options, num_features=booster.num_features(), ranges=ranges)
