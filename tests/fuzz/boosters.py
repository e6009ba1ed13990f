"""Small models of XGBoost and LightGBM, as their packages write them, from which the mutations begin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

TREES = b"\nend of trees"
WIDTH, SAMPLES = 3, 60
XGBOOST: tuple[dict[str, Any], ...] = (
    {"objective": "binary:logistic"},
    {"objective": "multi:softprob", "num_class": 3},
    {"booster": "dart", "rate_drop": 0.5},
    {"booster": "gblinear"},
    {"tree_method": "hist", "max_cat_to_onehot": 1},
)
LIGHTGBM: tuple[dict[str, Any], ...] = (
    {"objective": "binary"},
    {"objective": "multiclass", "num_class": 3},
    {"max_cat_to_onehot": 1, "min_data_per_group": 1, "cat_smooth": 0, "cat_l2": 0},
    {"linear_tree": True},
)
"""Parameters of a model each; those with `max_cat_to_onehot` have a column of categories."""


def seeds() -> Iterator[bytes]:
    """Every model as the bytes of its file."""
    import lightgbm
    import xgboost

    generator = np.random.default_rng(0)
    features = generator.standard_normal((SAMPLES, WIDTH)).astype(np.float32)
    classes = generator.integers(0, 3, SAMPLES)
    kinds = features.copy()
    kinds[:, 2] = generator.integers(0, 5, SAMPLES)
    for parameters in XGBOOST:
        has_kinds = "max_cat_to_onehot" in parameters
        labels = classes if "num_class" in parameters else classes > 0 if "objective" in parameters else kinds[:, 2] % 3
        given: dict[str, Any] = {"feature_types": ["q", "q", "c"], "enable_categorical": True} if has_kinds else {}
        data = xgboost.DMatrix(kinds if has_kinds else features, labels, **given)
        booster = xgboost.train({"max_depth": 2, "verbosity": 0, "nthread": 1, **parameters}, data, 2)
        for format in ("json", "ubj"):
            yield bytes(booster.save_raw(format))
    for parameters in LIGHTGBM:
        has_kinds = "max_cat_to_onehot" in parameters
        labels = classes if "num_class" in parameters else classes > 0 if "objective" in parameters else kinds[:, 2] % 3
        given = {"categorical_feature": [2]} if has_kinds else {}
        data = lightgbm.Dataset(kinds if has_kinds else features, labels, **given)
        settings = {"verbose": -1, "num_leaves": 4, "min_data_in_leaf": 3, "num_threads": 1, **parameters}
        text = lightgbm.train(settings, data, 2).model_to_string()
        yield text.partition("\nfeature_importances:")[0].encode() + b"\n\nparameters:\n\nend of parameters\n"
