"""The test data of the package onnx: networks of opset 9 and IR version 3, sequences, shapes that are fed."""

from __future__ import annotations

import shutil
from pathlib import Path

from corpus_models import Listed

NETWORKS = {
    "light_densenet121": "data_0",
    "light_inception_v1": "data_0",
    "light_inception_v2": "data_0",
    "light_resnet50": "gpu_0/data_0",
    "light_shufflenet": "gpu_0/data_0",
    "light_squeezenet": "data_0",
}
"""By file the name of its image. Three networks of hundreds of megabytes, AlexNet, VGG-19 and ZFNet, are left out."""
SIMPLE: Listed = {
    "test_expand_shape_model1": ("shape as an input", {"X": "float32 1x3x1", "shape": "int64 2 =1"}),
    "test_expand_shape_model4": ("shape as an input", {"X": "float32 1x3x1", "shape": "int64 4 =1"}),
    "test_sequence_model1": (
        "sequences",
        {"X": "float32 2x3x4", "Y": "float32 1x3x4", "Z": "float32 3x3x4"},
    ),
    **{f"test_sequence_model{number}": ("sequences", dict.fromkeys("XYZ", "float32 2x3x4")) for number in (2, 3, 4, 5)},
    "test_sequence_model6": ("sequences", {"X": "float32 2x3x4"}),
    "test_sequence_model7": ("sequences, float64", {"X": "float64 2x3x4"}),
    "test_shrink": ("one operator", {"x": "float32 5"}),
    "test_sign_model": ("one operator", {"x": "float32 7"}),
}


def make(home: Path) -> Listed:
    import onnx

    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    listed: Listed = {}
    for name, image in NETWORKS.items():
        shutil.copyfile(data / "light" / f"{name}.onnx", home / f"{name}.onnx")
        listed[f"{name}.onnx"] = ("image classification", {image: "float32 1x3x224x224"})
    for name, about in SIMPLE.items():
        shutil.copyfile(data / "simple" / name / "model.onnx", home / f"{name}.onnx")
        listed[f"{name}.onnx"] = about
    return listed
