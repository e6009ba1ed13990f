"""Code that the plugins of PyTorch share."""
