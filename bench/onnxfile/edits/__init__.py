"""Changes to ONNX graphs: cutting, splitting, folding, rewiring and converting."""
