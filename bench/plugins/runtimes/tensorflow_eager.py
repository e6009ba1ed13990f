"""TensorFlow without tf.function: Keras calls one operator after the other from Python."""

from bench.plugins.engines.tensorflow.runtime import TfRuntime


class TensorFlowEager(TfRuntime):
    """Calls the model as it is."""
