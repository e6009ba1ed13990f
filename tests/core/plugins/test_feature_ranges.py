"""Ranges of features that fitted models tell: around the thresholds of trees, or those that a scaler has seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.plugins.engines import feature_ranges

SCALE = np.array([1, 1000, 0.001], np.float32)
OFFSET = np.array([0, 5000, -7], np.float32)


@pytest.mark.parametrize(
    ("thresholds", "expected"),
    [
        ([10.0, 20.0, 14.0], (5.0, 25.0)),
        ([10.0], (5.0, 15.0)),
        ([-10.0], (-15.0, -5.0)),
        ([0.0], (-1.0, 1.0)),
        ([3.0, 1e308, -1e308], (1.5, 4.5)),
        ([], (-math.sqrt(3), math.sqrt(3))),
    ],
)
def test_ranges_go_beyond_thresholds(thresholds: list[float], expected: tuple[float, float]) -> None:
    splits = [(1, threshold) for threshold in thresholds]
    found = feature_ranges.of_splits([(0, 2.0), *splits], 2)
    assert found == ((1.0, pytest.approx(expected[0], rel=1e-5)), (3.0, pytest.approx(expected[1], rel=1e-5)))


def test_no_threshold_tells_no_range() -> None:
    assert feature_ranges.of_splits([], 3) is None


def data() -> tuple[np.ndarray, np.ndarray]:
    """Features of very different ranges, each of which the classes depend on."""
    normal = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    return normal * SCALE + OFFSET, (normal.sum(axis=1) > 0).astype(int)


def models() -> dict[str, Callable[[], Any]]:
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier
    from xgboost import XGBClassifier

    return {
        "tree": DecisionTreeClassifier,
        "forest": lambda: RandomForestClassifier(10),
        "boosting": lambda: GradientBoostingClassifier(n_estimators=10),
        "histogram": lambda: HistGradientBoostingClassifier(max_iter=10),
        "xgboost": lambda: XGBClassifier(n_estimators=10),
        "lightgbm": lambda: LGBMClassifier(n_estimators=10, verbose=-1),
        "deviations": lambda: make_pipeline(StandardScaler(), SVC()),
        "extremes": lambda: make_pipeline(make_pipeline(MinMaxScaler()), SVC()),
    }


@pytest.mark.framework("sklearn")
@pytest.mark.parametrize(
    "name", ["tree", "forest", "boosting", "histogram", "xgboost", "lightgbm", "deviations", "extremes"]
)
def test_models_tell_where_their_features_lay(name: str) -> None:
    features, classes = data()
    found = feature_ranges.of_estimator(models()[name]().fit(features, classes))
    assert found is not None
    least, largest = map(np.array, found)
    middle, width = (least + largest) / 2, largest - least
    assert (np.abs(middle - OFFSET) < 2 * SCALE).all(), (middle, OFFSET)
    assert (width > 0.5 * SCALE).all()
    assert (width < 15 * SCALE).all(), "at most twice as wide as the features"


@pytest.mark.framework("sklearn")
def test_models_that_tell_no_range() -> None:
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.tree import DecisionTreeClassifier

    features, classes = data()
    for model in (LogisticRegression(), make_pipeline(PCA(2), DecisionTreeClassifier())):
        assert feature_ranges.of_estimator(model.fit(features, classes)) is None


@pytest.mark.framework("sklearn")
def test_categories_are_no_thresholds() -> None:
    import xgboost

    codes = np.random.default_rng(0).integers(0, 5, size=(200, 1)).astype(np.float32)
    values = np.random.default_rng(1).normal(100, 1, size=(200, 1)).astype(np.float32)
    target = np.isin(codes[:, 0], (0, 3)) * 2.0 + (values[:, 0] > 100)
    table = np.concatenate([codes, values], axis=1)
    data = xgboost.DMatrix(table, target, feature_types=["c", "float"], enable_categorical=True)
    booster = xgboost.train({"max_cat_to_onehot": 1, "tree_method": "hist"}, data, num_boost_round=3)
    found = feature_ranges.of_xgboost(booster)
    assert found is not None
    assert (found[0][0], found[1][0]) == (pytest.approx(-math.sqrt(3), rel=1e-5), pytest.approx(math.sqrt(3), rel=1e-5))
    assert found[0][1] < 100 < found[1][1]


def test_members_of_an_ensemble_that_see_some_features_only() -> None:
    from sklearn.ensemble import BaggingClassifier

    generator = np.random.default_rng(0)
    features = generator.normal(size=(200, 6)) * np.array([1, 1, 1, 1, 1, 1000])
    bagging = BaggingClassifier(n_estimators=30, max_features=2, random_state=0).fit(features, features[:, 5] > 700)
    found = feature_ranges.of_estimator(bagging)
    assert found is not None
    widths = [high - low for low, high in zip(*found, strict=True)]
    assert widths[5] > 5 * max(widths[:5])
