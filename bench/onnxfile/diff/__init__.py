"""Two ONNX files compared: their nodes, weights and values."""
