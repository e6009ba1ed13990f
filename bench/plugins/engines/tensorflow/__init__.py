"""Code that the plugins of TensorFlow share."""
