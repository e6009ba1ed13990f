"""TensorFlow without tf.function: Keras calls one operator after the other from Python."""

from __future__ import annotations

from bench.plugins.engines.tensorflow.runtime import TfRuntime


class TensorFlowEager(TfRuntime):
    """Calls the model as it is."""
