"""Networks of Keras with random weights: as `.keras`, SavedModel, `.tflite` of several precisions, and by tf2onnx."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from corpus_models import Listed

SIDE = 96
IMAGE = {"input_layer": f"float32 1x{SIDE}x{SIDE}x3 0..255"}
WHAT = "image classification"


def make(home: Path) -> Listed:
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import numpy as np
    import onnx
    import tensorflow as tf
    import tf2onnx

    shape = (SIDE, SIDE, 3)
    keras.utils.set_random_seed(0)
    applications: dict[str, tuple[int, Any]] = {
        "mobilenet_v2": (9, lambda: keras.applications.MobileNetV2(input_shape=shape, alpha=0.35, weights=None)),
        "efficientnet_v2": (
            13,
            lambda: keras.applications.EfficientNetV2B0(input_shape=shape, weights=None, include_preprocessing=False),
        ),
        "densenet121": (15, lambda: keras.applications.DenseNet121(input_shape=shape, weights=None)),
        "mobilenet_v3": (18, lambda: keras.applications.MobileNetV3Small(input_shape=shape, weights=None)),
    }
    listed: Listed = {}
    for name, (opset, build) in applications.items():
        keras.backend.clear_session()
        model = build()
        spec = (tf.TensorSpec((None, *shape), tf.float32, name="input_layer"),)
        function = tf.function(lambda x, model=model: model(x, training=False), input_signature=spec)
        proto, _ = tf2onnx.convert.from_function(function, input_signature=spec, opset=opset)
        onnx.save(proto, home / f"{name}.onnx")
        listed[f"{name}.onnx"] = (WHAT, IMAGE)
        if name == "mobilenet_v2":
            model.save(home / f"{name}.keras")
            model.export(home / name)
            listed |= dict.fromkeys((f"{name}.keras", name), (WHAT, IMAGE))
            _as_tflite(home, name, listed)
        elif name == "mobilenet_v3":
            model.save(home / f"{name}.keras")
            listed[f"{name}.keras"] = (WHAT, IMAGE)
    recurrent = keras.Sequential(
        [keras.Input((20, 8), name="input_layer"), keras.layers.LSTM(256, return_sequences=True), keras.layers.GRU(64)]
    )
    recurrent.save(home / "recurrent.keras")
    recurrent.export(home / "recurrent")
    steps = {"input_layer": "float32 1x20x8"}
    listed |= dict.fromkeys(("recurrent.keras", "recurrent"), ("sequences of features", steps))

    @tf.function(input_signature=(tf.TensorSpec((None, 16), tf.float32, name="x"),))
    def powers(x: Any) -> Any:
        """A loop that ends when the values say so."""
        matrix = tf.constant(np.random.default_rng(0).normal(size=(16, 16)).astype(np.float32) / 8)
        return tf.while_loop(lambda x, n: n < 8, lambda x, n: (tf.tanh(x @ matrix), n + 1), (x, 0))[0]

    proto, _ = tf2onnx.convert.from_function(powers, input_signature=powers.input_signature, opset=17)
    onnx.save(proto, home / "loop.onnx")
    listed["loop.onnx"] = ("a loop", {"x": "float32 1x16"})
    return listed


def _as_tflite(home: Path, name: str, listed: Listed) -> None:
    """By the converter in float32, float16, with 8-bit weights, and in int8 throughout."""
    import numpy as np
    import tensorflow as tf

    def samples() -> Any:
        generator = np.random.default_rng(0)
        for _ in range(8):
            yield [generator.uniform(0, 255, (1, SIDE, SIDE, 3)).astype(np.float32)]

    for kind in ("float32", "float16", "dynamic", "int8"):
        converter = tf.lite.TFLiteConverter.from_saved_model(str(home / name))
        feeds = IMAGE
        if kind != "float32":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if kind == "float16":
            converter.target_spec.supported_types = [tf.float16]
        if kind == "int8":
            converter.representative_dataset = samples
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            converter.inference_input_type = converter.inference_output_type = tf.int8
            feeds = {"input_layer": f"int8 1x{SIDE}x{SIDE}x3 -128..127"}
        (home / f"{name}_{kind}.tflite").write_bytes(converter.convert())
        listed[f"{name}_{kind}.tflite"] = (f"{WHAT}, {kind}", feeds)
