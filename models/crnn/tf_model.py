"""The CRNN in Keras, with the weights, the inputs and the output of the PyTorch network.

Inside it works channels last, which is what TensorFlow's convolutions want on a CPU.

Shapes: N batch, C channels or features, H rows and W columns of the image, T = W / 8 steps, K = 46 classes, U units of
an LSTM, G = 4U its gates; weights are O outputs, I inputs, K kernel rows, L kernel columns.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
from safetensors.numpy import load_file

if TYPE_CHECKING:
    import numpy as np

CHANNELS = (32, 64, 64, 128, 256)
POOLS = ((2, 2), (2, 1), (2, 2), (2, 2), (2, 1))
HIDDEN = 256
NUM_CLASSES = 46
BATCH_NORM_EPSILON = 1e-5
"""PyTorch's; that of Keras is 1e-3."""


class Lstm(keras.layers.Layer):
    """An LSTM (N, T, C) -> (N, T, U) with the parameters of PyTorch: a bias of the input and one of the state.

    keras.layers.LSTM has the sum of the two as its only bias, so it has fewer parameters. In everything else this is
    its computation, with the same loop (on a CPU as fast as that one), and in a form that tf2onnx knows as an LSTM.
    Both frameworks have the gates in the order input, forget, cell, output.
    """

    def __init__(self, units: int) -> None:
        super().__init__()
        self.units = units

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        gates = 4 * self.units
        self.input_kernel = self.add_weight(shape=(input_shape[-1], gates), name="input_kernel")
        self.state_kernel = self.add_weight(shape=(self.units, gates), name="state_kernel")
        self.input_bias = self.add_weight(shape=(gates,), name="input_bias")
        self.state_bias = self.add_weight(shape=(gates,), name="state_bias")

    def call(self, inputs_NTC: tf.Tensor) -> tf.Tensor:
        inputs_TNC = tf.transpose(inputs_NTC, (1, 0, 2))
        num_steps = inputs_TNC.shape[0]
        bias_G = self.input_bias + self.state_bias  # outside the loop: once, and tf2onnx wants one bias there
        steps = tf.TensorArray(tf.float32, size=num_steps, element_shape=inputs_TNC.shape[1:]).unstack(inputs_TNC)
        hidden = tf.TensorArray(tf.float32, size=num_steps, element_shape=(inputs_TNC.shape[1], self.units))
        zero_NU = tf.zeros((tf.shape(inputs_TNC)[1], self.units))

        def advance(step: tf.Tensor, hidden: tf.TensorArray, hidden_NU: tf.Tensor, cell_NU: tf.Tensor) -> Any:
            gates_NG = tf.matmul(steps.read(step), self.input_kernel) + tf.matmul(hidden_NU, self.state_kernel)
            input_NU, forget_NU, new_NU, output_NU = tf.split(tf.nn.bias_add(gates_NG, bias_G), 4, axis=1)
            cell_NU = tf.sigmoid(forget_NU) * cell_NU + tf.sigmoid(input_NU) * tf.tanh(new_NU)
            hidden_NU = tf.sigmoid(output_NU) * tf.tanh(cell_NU)
            return step + 1, hidden.write(step, hidden_NU), hidden_NU, cell_NU

        _, hidden, _, _ = tf.while_loop(
            lambda step, *_: step < num_steps,
            advance,
            (0, hidden, zero_NU, zero_NU),
            maximum_iterations=num_steps,
        )
        return tf.transpose(hidden.stack(), (1, 0, 2))


class Crnn(keras.Model):
    """Image (N, 1, 32, W) in [0, 1] and field flag (N, T, 2), one-hot -> probabilities (N, T, K)."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = [
            keras.Sequential(
                [
                    keras.layers.Conv2D(channels, 3, padding="same", data_format="channels_last"),
                    keras.layers.LeakyReLU(0.1),
                    keras.layers.BatchNormalization(epsilon=BATCH_NORM_EPSILON),
                    keras.layers.MaxPooling2D(pool, data_format="channels_last"),
                ]
            )
            for channels, pool in zip(CHANNELS, POOLS, strict=True)
        ]
        self.lstm1 = Lstm(HIDDEN)
        self.lstm2 = Lstm(HIDDEN)
        self.classify = keras.layers.Dense(NUM_CLASSES, activation="softmax")

    def call(self, image_NCHW: tf.Tensor, flag_NTC: tf.Tensor) -> tf.Tensor:
        # With one channel NCHW and NHWC hold the same numbers in the same order.
        x_NHWC = keras.ops.squeeze(keras.ops.expand_dims(image_NCHW, -1), 1)
        for block in self.blocks:
            x_NHWC = block(x_NHWC)
        features_NTC = keras.ops.squeeze(x_NHWC, 1)
        states_NTC = self.lstm2(self.lstm1(keras.ops.concatenate([features_NTC, flag_NTC], axis=2)))
        return self.classify(states_NTC)


def build(weights: Path) -> Crnn:
    """The trained network, from the safetensors file of the PyTorch one."""
    model = Crnn()
    model(keras.Input((1, 32, 400)), keras.Input((50, 2)))  # makes the variables
    tensors = load_file(weights)
    for number, block in enumerate(model.blocks):
        conv, _, norm, _ = block.layers
        weight_OIKL = tensors[f"blocks.{number}.0.weight"]
        conv.set_weights([weight_OIKL.transpose(2, 3, 1, 0), tensors[f"blocks.{number}.0.bias"]])
        names = ("weight", "bias", "running_mean", "running_var")
        norm.set_weights([tensors[f"blocks.{number}.2.{name}"] for name in names])
    for name in ("lstm1", "lstm2"):
        getattr(model, name).set_weights(_lstm_weights(tensors, name))
    model.classify.set_weights([tensors["classify.weight"].T, tensors["classify.bias"]])
    return model


def _lstm_weights(tensors: dict[str, np.ndarray], name: str) -> list[np.ndarray]:
    kernels = [tensors[f"{name}.weight_{side}_l0"].T for side in ("ih", "hh")]
    return [*kernels, *(tensors[f"{name}.bias_{side}_l0"] for side in ("ih", "hh"))]
