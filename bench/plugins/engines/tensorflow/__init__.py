"""What the plugins of TensorFlow share."""
