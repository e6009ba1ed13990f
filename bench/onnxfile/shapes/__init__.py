"""The shape of every value of an ONNX graph, as a function of its dynamic dimensions."""
