"""A pickled scikit-learn estimator, or one of XGBoost or LightGBM with scikit-learn's interface. A pickle runs code."""

from __future__ import annotations

import dataclasses
import importlib
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from bench.api import Arrays, TensorSpec
from bench.api.errors import InputError
from bench.onnxfile.deferred import np
from bench.plugins.engines import estimators, feature_ranges
from bench.tasks import probe, sizes
from bench.tasks.failures import refused
from bench.tasks.formats import Format
from bench.tasks.options import Asked, Found
from bench.tasks.pretrained_folder import shown
from bench.tasks.user_task import OwnTask

FORMAT = Format(
    described="a .pkl or .joblib file of a scikit-learn estimator",
    suffixes=(".pkl", ".pickle", ".joblib"),
    code="a pickle, which may run any code",
)
_NATIVE = "XGBoost's and LightGBM's own models are read from the files that save_model() writes: .json, .ubj and .txt"
_INSTALL = "scikit-learn, XGBoost and LightGBM: pip install 'inferometer[sklearn]'"


class SklearnTask(OwnTask):
    """An estimator as it was pickled, which takes a table of float32 numbers, a sample in each row."""

    sources = ("sklearn",)
    requires = ("sklearn", "joblib")
    extra = "sklearn"
    weights = "model.joblib"
    modules: ClassVar[tuple[str, ...]] = ()
    """The modules that define the classes of the estimator and its parts."""

    def import_packages(self, source: str) -> None:
        for name in self.modules:
            importlib.import_module(name)

    def build(self, source: str, weights: Path) -> Any:
        return estimators.load(weights)


def examine(path: Path, folder: Path, options: Asked) -> Found:
    """Load the estimator, and run it once to learn its output.

    Raises:
        InputError: the file holds no fitted estimator, or one that takes anything but a table of numbers.
    """
    shutil.copyfile(path, folder / SklearnTask.weights)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        estimator = _loaded(folder / SklearnTask.weights)
    warnings.simplefilter("ignore")  # such as that an array has no names of columns
    width = _num_features(estimator)
    with refused("it does not take a table of float32 numbers"):
        output = estimators.output_of(estimator, np.zeros((1, width), np.float32))
        call = estimators.method(estimator, output)

    def run(feeds: Arrays) -> Arrays:
        return {output: call(feeds[estimators.INPUT]).astype(estimators.DTYPES[output])}

    modules = sorted({type(part).__module__ for part in estimators.parts(estimator)} - {"__main__"})
    packages = sorted({"numpy", *(name.partition(".")[0] for name in modules)})
    attributes: dict[str, Any] = {"modules": tuple(modules), "packages": tuple(packages)}
    is_classifier = output in (estimators.PROBABILITIES, estimators.LABEL)
    labels = _labels(getattr(estimator, "classes_", ())) if is_classifier else ()
    inputs = (TensorSpec(name=estimators.INPUT, dtype="float32", shape=(probe.BATCH, width)),)
    ranges = feature_ranges.of_estimator(estimator)
    domains = {estimators.INPUT: ranges} if ranges is not None else {}
    facts = sizes.choose(
        SklearnTask, run, inputs, options, attributes, domains=domains, num_samples=estimators.NUM_TRIED
    )
    return dataclasses.replace(facts, notes=(*_versions(warned), *facts.notes), labels=labels)


def _loaded(path: Path) -> Any:
    """The estimator of a pickle.

    Raises:
        InputError: the file is no pickle, is damaged, or needs a package that is not installed.
    """
    with refused("it cannot be unpickled", advice="; was it cut off while it was copied?"):
        try:
            return estimators.load(path)
        except ModuleNotFoundError as error:
            raise InputError(f"it needs the package {shown(error.name)}, which is not installed; {_INSTALL}") from error


def _num_features(estimator: Any) -> int:
    """The number of columns of the table that an estimator takes.

    Raises:
        InputError: the object is no fitted estimator, or does not take a table of numbers.
    """
    if hasattr(estimator, "n_features_in_"):
        return int(estimator.n_features_in_)
    advice = f"; {_NATIVE}" if hasattr(estimator, "save_model") else ""
    raise InputError(
        f"it holds a {type(estimator).__name__} without n_features_in_, so it is no fitted estimator that takes a "
        f"table of numbers{advice}"
    )


def _labels(classes: Any) -> tuple[int, ...] | tuple[str, ...]:
    """The classes, if they are texts or whole numbers; else none."""
    labels = np.asarray(classes)
    if labels.ndim == 1 and labels.size and all(isinstance(label, str) for label in labels):
        return tuple(map(str, labels))
    if labels.ndim != 1 or labels.dtype.kind not in "fiub" or not all(float(label).is_integer() for label in labels):
        return ()
    return tuple(int(label) for label in labels)


def _versions(warned: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    """A line about an estimator that another version of scikit-learn has pickled; none for the version that is here."""
    from sklearn.exceptions import InconsistentVersionWarning

    for warning in warned:
        if isinstance(inconsistency := warning.message, InconsistentVersionWarning):
            versions = inconsistency.original_sklearn_version, inconsistency.current_sklearn_version
            return (f"scikit-learn {versions[0]} pickled it and {versions[1]} reads it: its answers may be others now",)
    return ()
