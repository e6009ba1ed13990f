"""TensorFlow without tf.function: Keras calls one operator after the other from Python."""

from bench.plugins.engines.tensorflow.runtime import TfRuntime


class TensorFlowEager(TfRuntime):
    """Calls the model as it is."""

    title = "TensorFlow, eager"
    generates = False  # it takes 100 ms a token, thirty times as long as a function: its texts alone take minutes
