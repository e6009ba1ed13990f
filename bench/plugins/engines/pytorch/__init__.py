"""What the plugins of PyTorch share."""
