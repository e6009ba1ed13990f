"""Boosted trees of LightGBM and XGBoost: as pickles, and as ONNX files by onnxmltools."""

from __future__ import annotations

from pathlib import Path

from corpus_models import Listed

FEEDS = {"X": "float32 1x12"}


def make(home: Path) -> Listed:
    import joblib
    import numpy as np
    import onnxmltools
    from lightgbm import LGBMClassifier
    from onnxmltools.convert.common.data_types import FloatTensorType
    from xgboost import XGBClassifier

    generator = np.random.default_rng(0)
    table = generator.standard_normal((400, 12)).astype(np.float32)
    label = (table[:, 0] + table[:, 1] * table[:, 2] > 0).astype(np.int64)
    types = [("X", FloatTensorType([None, 12]))]
    listed: Listed = {}
    for name, model in {"lightgbm": LGBMClassifier(verbose=-1), "xgboost": XGBClassifier()}.items():
        model.fit(table, label)
        joblib.dump(model, home / f"{name}.joblib")
        convert = getattr(onnxmltools, f"convert_{name}")
        onnxmltools.utils.save_model(convert(model, initial_types=types, target_opset=15), str(home / f"{name}.onnx"))
        listed |= dict.fromkeys((f"{name}.joblib", f"{name}.onnx"), ("tabular", FEEDS))
    return listed
