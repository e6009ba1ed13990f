"""An ONNX graph as an SVG picture."""
