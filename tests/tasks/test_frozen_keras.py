"""Layers of Keras that were frozen: their weights are parameters, and they stay frozen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.framework("tensorflow")


@pytest.mark.parametrize("frozen", ["none", "base", "all"])
def test_weights_of_keras_that_were_frozen_are_parameters(frozen: str) -> None:
    """As in PyTorch: a base that was kept while a new head was trained is a part of the model."""
    import keras

    from bench.tasks import tf_models

    base = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.BatchNormalization()])
    model = keras.Sequential([base, keras.layers.Dense(3)])
    for each in {"none": [], "base": [base], "all": [model]}[frozen]:
        each.trainable = False
    weights = tf_models.keras_call(model).trainable_weights
    assert sum(int(np.prod(weight.shape)) for weight in weights) == (4 * 8 + 8) + 2 * 8 + (8 * 3 + 3)


@pytest.mark.parametrize("kind", ["assembled", "nested", "subclass", "variable", "none"])
def test_what_is_frozen_in_keras_stays_frozen(kind: str) -> None:
    """A frozen normalization that is called with training=True keeps its statistics, and a free one does not."""
    import keras

    from bench.tasks import tf_models

    norm = keras.layers.BatchNormalization()

    class Subclass(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.inner = norm

        def call(self, x: Any) -> Any:
            return self.inner(x, training=True)

    inputs, inner = keras.Input((4,)), keras.Input((4,))
    assembled = keras.Model(inputs, norm(inputs, training=True)) if kind != "subclass" else None
    model = Subclass() if assembled is None else assembled
    if kind == "nested":
        model = keras.Sequential([inner, model, keras.layers.Dense(4)])
    x = 3 + np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    model(x)
    if kind == "variable":
        norm.gamma.trainable = False
    norm.trainable = kind in ("none", "variable")
    before = [layer.trainable for layer in model._flatten_layers()], [weight.trainable for weight in model.weights]
    expected = model(x, training=False).numpy()
    call = tf_models.keras_call(model)
    (output,) = call.outputs_of({"x": x}).values()
    np.testing.assert_array_equal(output, expected)
    assert before == (
        [layer.trainable for layer in model._flatten_layers()],
        [weight.trainable for weight in model.weights],
    )
    assert sum(int(np.prod(weight.shape)) for weight in call.trainable_weights) == 2 * 4 + 20 * (kind == "nested")
