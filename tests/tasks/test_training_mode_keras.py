"""Keras models whose layers are called in training mode: told where two runs, or a batch and its samples, differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import TensorSpec
from bench.tasks import tf_models, tf_training

pytestmark = pytest.mark.framework("tensorflow")
X = 3 + np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
INPUTS = (TensorSpec(name="x", dtype="float32", shape=("batch", 4)),)


def layer(kind: str) -> Any:
    import keras

    makes = {
        "drop": lambda: keras.layers.Dropout(0.5, name="first"),
        "none": lambda: keras.layers.Dropout(0.0, name="first"),
        "alpha": lambda: keras.layers.AlphaDropout(0.5, name="first"),
        "noise": lambda: keras.layers.GaussianNoise(0.5, name="first"),
        "norm": lambda: keras.layers.BatchNormalization(name="first"),
        "frozen": lambda: keras.layers.BatchNormalization(name="first", trainable=False),
        "layer norm": lambda: keras.layers.LayerNormalization(name="first"),
    }
    return makes[kind]()


def subclass(inner: Any, how: str) -> Any:
    """A model that calls a layer in training mode by itself, or a function that drops values, or as it is called."""
    import keras

    seeds = keras.random.SeedGenerator(1)

    class Subclass(keras.Model):
        def __init__(self) -> None:
            super().__init__(name="outer")
            self.inner, self.head, self.seeds = inner, keras.layers.Dense(2), seeds

        def call(self, x: Any) -> Any:
            if how == "function":
                x = keras.random.dropout(x, 0.5, seed=seeds)
            elif how == "fixed seed":
                x = keras.random.dropout(x, 0.5, seed=3)
            return self.head(self.inner(x, training=True) if how == "code" else self.inner(x))

    return Subclass()


def assembled(inner: Any, folder: Path) -> Any:
    """A model within a model that was assembled with the layer in training mode, as it is loaded."""
    import keras

    x, y = keras.Input((4,)), keras.Input((4,))
    within = keras.Model(x, inner(x, training=True))
    keras.Model(y, keras.layers.Dense(2)(within(y))).save(folder / "net.keras")
    return keras.models.load_model(folder / "net.keras")


@pytest.mark.parametrize(
    ("kind", "how", "expected"),
    [
        ("drop", "assembled", None),  # what the model is called with overrides what it was assembled with
        ("norm", "assembled", None),
        ("noise", "assembled", None),
        ("drop", "code", "Dropout 'first' is in training mode: it drops values"),
        ("alpha", "code", "AlphaDropout 'first' is in training mode: it drops values"),
        ("noise", "code", "GaussianNoise 'first' draws random numbers"),
        ("norm", "code", "BatchNormalization 'first' is in training mode: its outputs depend on the other samples"),
        ("none", "code", None),
        ("frozen", "code", None),
        ("layer norm", "as called", None),
        ("drop", "as called", None),
        ("norm", "as called", None),
        ("none", "function", "Subclass 'outer' is in training mode: it drops values"),
        ("none", "fixed seed", None),
    ],
)
def test_keras_models_are_told_by_what_they_do(kind: str, how: str, expected: str | None, tmp_path: Path) -> None:
    from bench.onnxfile.file.training import sentences

    model = assembled(layer(kind), tmp_path) if how == "assembled" else subclass(layer(kind), how)
    call = tf_models.keras_call(model)

    def run(x: np.ndarray) -> np.ndarray:
        (found,) = call.outputs_of({"x": x}).values()
        return np.asarray(found)

    both, again, singly = run(X), run(X), np.concatenate([run(X[row : row + 1]) for row in range(len(X))])
    is_settled = np.allclose(both, again, atol=1e-5) and (how == "fixed seed" or np.allclose(both, singly, atol=1e-5))
    assert is_settled == (expected is None)
    lines = sentences(tf_training.of_keras(model, INPUTS))
    assert len(lines) == (expected is not None), lines
    assert expected is None or lines[0].startswith(expected)
    assert not any("model.eval()" in line for line in lines), "Keras has no such method"
    if is_settled:
        np.testing.assert_allclose(run(X), both, atol=1e-5)


def test_layers_of_numbered_names_are_told_apart() -> None:
    import keras

    class Numbered(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.some = [keras.layers.Dropout(0.5, name=name) for name in ("drop", "drop_1", "drop_2")]

        def call(self, x: Any) -> Any:
            for place, each in enumerate(self.some):
                x = each(x, training=place == 1)
            return x

    model = Numbered()
    model(X)
    assert [node.name for node in tf_training.of_keras(model, INPUTS)] == ["drop_1"]


def test_a_count_is_written_and_a_model_that_cannot_be_traced_is_told_by_its_runs() -> None:
    import keras

    class Counts(keras.Model):
        def __init__(self) -> None:
            super().__init__(name="counts")
            self.count = self.add_weight(shape=(), initializer="zeros", trainable=False)

        def call(self, x: Any) -> Any:
            self.count.assign_add(1.0)
            return x * self.count

    class Eager(keras.Model):
        def call(self, x: Any) -> Any:
            return x * float(np.asarray(x).mean())

    assert [str(node) for node in tf_training.of_keras(Counts(), INPUTS)] == ["Counts 'counts'"]
    assert not list(tf_training.of_keras(Eager(), INPUTS))
