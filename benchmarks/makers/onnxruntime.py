"""The examples in the package onnxruntime: IR version 3, opset 7, and a classifier with a dict for each sample."""

from __future__ import annotations

import shutil
from pathlib import Path

from corpus_models import Listed


def make(home: Path) -> Listed:
    import onnxruntime

    listed: Listed = {
        "mul_1.onnx": ("one operator", {"X": "float32 3x2"}),
        "sigmoid.onnx": ("one operator", {"x": "float32 3x4x5"}),
        "logreg_iris.onnx": ("tabular", {"float_input": "float32 3x2"}),
    }
    for name in listed:
        shutil.copyfile(Path(onnxruntime.__file__).parent / "datasets" / name, home / name)
    return listed
