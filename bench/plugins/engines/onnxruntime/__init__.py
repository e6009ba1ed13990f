"""Code that the plugins of ONNX Runtime share."""
