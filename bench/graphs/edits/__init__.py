"""ONNX graphs changed: cut, split, folded, converted."""
