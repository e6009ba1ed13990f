"""Estimators of scikit-learn for tables, as pickles and as ONNX files by skl2onnx.

The opsets are the newer ones; nearest neighbours become a Scan, and classifiers end in a dict for each sample.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corpus_models import Listed

FEEDS = {"X": "float32 1x12"}


def make(home: Path) -> Listed:
    import joblib
    import numpy as np
    import skl2onnx
    from skl2onnx.common.data_types import StringTensorType
    from sklearn import (
        ensemble,
        linear_model,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        svm,
    )

    generator = np.random.default_rng(0)
    table = generator.standard_normal((400, 12)).astype(np.float32)
    label = (table[:, 0] + table[:, 1] * table[:, 2] > 0).astype(np.int64)
    value = table[:, 0] * 2 + table[:, 3]
    estimators: dict[str, tuple[int, Any]] = {
        "logistic": (12, pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression())),
        "forest": (17, ensemble.RandomForestClassifier(n_estimators=100, random_state=0)),
        "boosting": (19, ensemble.GradientBoostingRegressor(random_state=0)),
        "mlp": (20, neural_network.MLPClassifier((512, 512), max_iter=20, random_state=0)),
        "svr": (21, svm.SVR()),
        "neighbors": (13, neighbors.KNeighborsRegressor(3)),
    }
    listed: Listed = {}
    for name, (opset, estimator) in estimators.items():
        estimator.fit(table, value if name in ("boosting", "svr", "neighbors") else label)
        proto = skl2onnx.to_onnx(estimator, table[:1], target_opset={"": opset, "ai.onnx.ml": 3})
        (home / f"{name}.onnx").write_bytes(proto.SerializeToString())
        listed[f"{name}.onnx"] = ("tabular", FEEDS)
        if name in ("forest", "mlp"):
            joblib.dump(estimator, home / f"{name}.joblib")
            listed[f"{name}.joblib"] = ("tabular", FEEDS)
    words = pipeline.make_pipeline(
        preprocessing.OneHotEncoder(handle_unknown="ignore"), linear_model.LogisticRegression()
    )  # fmt: skip
    words.fit(np.array([["red", "small"], ["blue", "small"], ["red", "large"], ["blue", "large"]]), [1, 0, 1, 0])
    proto = skl2onnx.to_onnx(words, initial_types=[("words", StringTensorType([None, 2]))])
    (home / "words.onnx").write_bytes(proto.SerializeToString())
    listed["words.onnx"] = ("tabular, strings", {"words": "str 1x2"})
    return listed
