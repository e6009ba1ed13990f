"""The ranges of features that a fitted model tells, so that made-up samples reach all of its branches.

A scaler knows the spread of the features that it was fitted to. Trees compare features with thresholds: values from
well below the least threshold of a feature to well above the largest take every branch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from bench.onnxfile.deferred import np

Split = tuple[int, float]
"""The place of a feature and a threshold that it is compared with."""
Ranges = tuple[tuple[float, ...], tuple[float, ...]]
"""The least and the largest value of each feature."""

_DEVIATIONS = math.sqrt(3)
"""Half the width of a uniform distribution in standard deviations."""
LARGEST = 1e30
"""Thresholds beyond it stand for infinity."""


def of_estimator(estimator: Any) -> Ranges | None:
    """The ranges that the first step of an estimator tells, which sees the features as they are; None if it does not.

    Source: the fitted attributes that https://scikit-learn.org/stable/api lists for each class.
    """
    while hasattr(estimator, "steps"):
        estimator = estimator.steps[0][1]
    if getattr(estimator, "data_min_", None) is not None:
        return _ranges(estimator.data_min_, estimator.data_max_)
    if getattr(estimator, "mean_", None) is not None and getattr(estimator, "scale_", None) is not None:
        return _ranges(
            estimator.mean_ - _DEVIATIONS * estimator.scale_, estimator.mean_ + _DEVIATIONS * estimator.scale_
        )
    if hasattr(estimator, "get_booster"):
        return of_xgboost(estimator.get_booster())
    if hasattr(estimator, "booster_"):
        return of_lightgbm(estimator.booster_)
    return of_splits(_splits(estimator), estimator.n_features_in_) if hasattr(estimator, "n_features_in_") else None


def _splits(estimator: Any) -> Iterator[Split]:
    """The splits of a tree of scikit-learn, or of the trees of an ensemble."""
    members = getattr(estimator, "estimators_", ())
    trees = (estimator, *(members.ravel() if hasattr(members, "ravel") else members))
    seen = (None, *getattr(estimator, "estimators_features_", [None] * (len(trees) - 1)))  # of bagging, by member
    for tree, features in zip(trees, seen, strict=True):
        if hasattr(tree, "tree_"):
            for place, threshold in zip(tree.tree_.feature.tolist(), tree.tree_.threshold.tolist(), strict=True):
                if place >= 0:  # a leaf has a negative place
                    yield (place if features is None else int(features[place])), threshold
    for stage in getattr(estimator, "_predictors", ()):  # of histogram-based boosting, which shows no trees (1.9)
        for tree in stage:
            nodes = tree.nodes[(tree.nodes["is_leaf"] == 0) & (tree.nodes["is_categorical"] == 0)]
            yield from zip(nodes["feature_idx"].tolist(), nodes["num_threshold"].tolist(), strict=True)


def of_xgboost(booster: Any) -> Ranges | None:
    """The ranges that the trees of an `xgboost.Booster` tell."""
    names = booster.feature_names or [f"f{place}" for place in range(booster.num_features())]
    places = {name: place for place, name in enumerate(names)}

    def split(node: Mapping[str, Any]) -> Split | None:
        value = node.get("split_condition")  # a list of categories where the feature is none that is compared
        return (places[node["split"]], float(value)) if isinstance(value, (int, float)) else None

    trees = [json.loads(text) for text in booster.get_dump(dump_format="json")]
    splits = (split(node) for tree in trees for node in _nodes(tree, lambda node: node.get("children", ())))
    return of_splits((pair for pair in splits if pair is not None), len(names))


def of_lightgbm(booster: Any) -> Ranges | None:
    """The ranges that the trees of a `lightgbm.Booster` tell."""
    trees = [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]
    sides = ("left_child", "right_child")
    splits = (
        (node["split_feature"], node["threshold"])
        for tree in trees
        for node in _nodes(tree, lambda node: [node[side] for side in sides if side in node])
        if "split_feature" in node and node["decision_type"] == "<="  # categories are compared by ==
    )
    return of_splits(splits, booster.num_feature())


def of_splits(splits: Iterable[Split], num_features: int) -> Ranges | None:
    """Ranges that go beyond the thresholds of each feature by half of their spread; None without any threshold.

    A feature with one threshold goes beyond it by half of its size, or by 1 where it is 0; a feature without any
    has the standard deviation 1.
    """
    least, largest = np.full(num_features, np.inf), np.full(num_features, -np.inf)
    for place, threshold in splits:
        if abs(threshold) < LARGEST:
            least[place], largest[place] = min(least[place], threshold), max(largest[place], threshold)
    known = np.isfinite(least)
    if not known.any():
        return None
    least[~known], largest[~known] = 0, 0
    spread = largest - least
    beyond = np.select([~known, spread > 0, least != 0], [_DEVIATIONS, spread / 2, np.abs(least) / 2], default=1.0)
    return _ranges(least - beyond, largest + beyond)


def _nodes(root: Any, children: Callable[[Any], Iterable[Any]]) -> Iterator[Any]:
    """A node of a tree and all nodes below it."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(children(node))


def _ranges(least: np.ndarray, largest: np.ndarray) -> Ranges | None:
    """Ranges with as many digits as matter; None where one is not finite."""
    if not (np.isfinite(least).all() and np.isfinite(largest).all()):
        return None
    low, high = (tuple(float(f"{value:.6g}") for value in side) for side in (least, largest))
    return low, high
