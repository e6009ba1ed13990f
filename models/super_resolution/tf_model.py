"""ESPCN in Keras, with the weights, the input and the output of the PyTorch network.

Inside it works channels last, which is what TensorFlow's convolutions want on a CPU.

Shapes: N batch, C channels, H height and W width of the low-resolution image; weights are O outputs, I inputs,
K kernel rows, L kernel columns.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import keras
from safetensors.numpy import load_file

if TYPE_CHECKING:
    import numpy as np

SCALE = 3


def build(weights: Path) -> keras.Model:
    """The trained network, from the safetensors file of the PyTorch one.

    It takes low-resolution luma (N, 1, H, W) in [0, 1] and returns high-resolution luma (N, 1, 3H, 3W), not clamped.
    """
    model = _untrained()
    tensors = load_file(weights)
    for name in ("conv1", "conv2", "conv3", "conv4"):
        weight_OIKL, bias_O = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
        if name == "conv4":
            weight_OIKL, bias_O = _depth_last(weight_OIKL), _depth_last(bias_O)
        model.get_layer(name).set_weights([weight_OIKL.transpose(2, 3, 1, 0), bias_O])
    return model


def _untrained() -> keras.Model:
    def conv(filters: int, kernel_size: int, activation: str | None, name: str) -> keras.layers.Conv2D:
        return keras.layers.Conv2D(
            filters, kernel_size, padding="same", activation=activation, data_format="channels_last", name=name
        )

    lr_NCHW = keras.Input((1, None, None), dtype="float32", name="lr")
    # With one channel NCHW and NHWC hold the same numbers in the same order: moving an axis of size 1 by
    # expand_dims and squeeze copies nothing and, unlike a reshape, needs no sizes.
    x_NHWC = keras.ops.squeeze(keras.ops.expand_dims(lr_NCHW, -1), 1)
    x_NHWC = conv(64, 5, "relu", "conv1")(x_NHWC)
    x_NHWC = conv(64, 3, "relu", "conv2")(x_NHWC)
    x_NHWC = conv(32, 3, "relu", "conv3")(x_NHWC)
    x_NHWC = conv(SCALE**2, 3, None, "conv4")(x_NHWC)
    hr_NHWC = keras.ops.depth_to_space(x_NHWC, SCALE, data_format="channels_last")
    hr_NCHW = keras.ops.squeeze(keras.ops.expand_dims(hr_NHWC, 1), -1)
    return keras.Model(lr_NCHW, hr_NCHW, name="espcn")


def _depth_last(array: np.ndarray) -> np.ndarray:
    """Output channels from PixelShuffle's order (channel, row, column) to depth_to_space's (row, column, channel).

    With the one channel of luma both are the same.
    """
    order = array.reshape(-1, SCALE**2, *array.shape[1:])
    return order.swapaxes(0, 1).reshape(array.shape)
