"""Runs a model file in its own runtime, without bench: `python alone.py MODEL FEEDS_JSON`.

FEEDS_JSON holds the feeds of `corpus.toml` by input name. Exits with 0 when the model ran.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np


def array(text: str, generator: np.random.Generator) -> np.ndarray:
    """The array of a feed such as `float32 1x3x48x320 0..1`; see `corpus.toml`."""
    dtype, shape, *values = text.split()
    sizes = () if shape == "scalar" else tuple(map(int, shape.split("x")))
    if values and values[0].startswith("="):
        return np.full(sizes, float(values[0][1:])).astype(dtype)
    if values:
        low, high = map(float, values[0].split(".."))
        drawn = generator.uniform(low, high, sizes) if dtype.startswith("float") else None
        return (generator.integers(int(low), int(high) + 1, sizes) if drawn is None else drawn).astype(dtype)
    if dtype.startswith("float"):
        return generator.standard_normal(sizes).astype(dtype)
    return np.full(sizes, "a text", dtype=object) if dtype == "str" else np.zeros(sizes, dtype)


def run(path: Path, feeds: dict[str, np.ndarray]) -> None:
    """Run a model once in the runtime of its format."""
    if path.suffix == ".onnx":
        import onnxruntime

        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)
    elif path.suffix == ".tflite":
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(str(path))
        details = interpreter.get_input_details()
        for detail, value in zip(details, feeds.values(), strict=True):
            interpreter.resize_tensor_input(detail["index"], value.shape)
        interpreter.allocate_tensors()
        for detail, value in zip(details, feeds.values(), strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
    elif path.suffix in (".jit", ".pt"):
        import torch

        torch.jit.load(str(path))(
            *(torch.from_numpy(value) if value.ndim else value.item() for value in feeds.values())
        )
    elif path.suffix == ".pt2":
        import torch

        torch.export.load(path).module()(*map(torch.from_numpy, feeds.values()))
    elif path.suffix in (".pkl", ".joblib"):
        import joblib

        joblib.load(path).predict(*feeds.values())
    elif path.suffix == ".keras":
        import keras

        keras.saving.load_model(path, compile=False)(*feeds.values())
    elif path.suffix == ".xml":
        import openvino

        openvino.compile_model(path, "CPU")(feeds)
    elif (path / "config.json").is_file():
        import torch
        import transformers

        named = {name: torch.from_numpy(value) for name, value in feeds.items()}
        transformers.AutoModel.from_pretrained(path)(**named)
    else:
        import tensorflow as tf

        v1 = tf.compat.v1
        with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
            signature = v1.saved_model.load(session, ["serve"], str(path)).signature_def["serving_default"]
            named = {
                info.name: value
                for (_, info), value in zip(sorted(signature.inputs.items()), feeds.values(), strict=True)
            }
            session.run([info.name for info in signature.outputs.values()], named)


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    run(Path(sys.argv[1]), {name: array(text, generator) for name, text in json.loads(sys.argv[2]).items()})
