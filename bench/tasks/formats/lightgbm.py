"""LightGBM's own text file of a model. It holds data alone, no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.api import Arrays
from bench.plugins.engines import boosters, feature_ranges
from bench.plugins.engines.estimators import INPUT
from bench.tasks import booster_files, lightgbm_files
from bench.tasks.failures import refused
from bench.tasks.formats import Format
from bench.tasks.options import Asked, Found
from bench.tasks.user_task import OwnTask

NO_MODEL = "it is no model that LightGBM's save_model() wrote"
_ADVICE = "; write it anew with save_model(): no other .txt file can be measured"
FORMAT = Format(described="a LightGBM .txt file", suffixes=(".txt",))


class LightGbmTask(OwnTask):
    """A LightGBM model as it is, which takes a table of float32 numbers, a sample in each row."""

    sources = ("lightgbm",)
    requires = ("lightgbm",)
    extra = "sklearn"
    weights = "model.lightgbm"

    def build(self, source: str, weights: Path) -> Any:
        return boosters.open_lightgbm(weights)


def examine(path: Path, folder: Path, options: Asked) -> Found:
    """Open the file and run the model once to learn its output.

    Raises:
        InputError: LightGBM cannot open the file, or the model does not run.
    """
    booster_files.check(lightgbm_files.check, path, NO_MODEL, advice=_ADVICE)
    with refused(NO_MODEL, advice=_ADVICE):
        booster = boosters.open_lightgbm(path)
        output = boosters.lightgbm_output(booster)
        ranges = feature_ranges.of_lightgbm(booster)

    def run(feeds: Arrays) -> Arrays:
        return {output: boosters.as_output(booster.predict(feeds[INPUT]), output)}

    return booster_files.facts_of(LightGbmTask, run, options, num_features=booster.num_feature(), ranges=ranges)
