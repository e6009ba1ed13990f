"""What the plugins of ONNX Runtime share."""
