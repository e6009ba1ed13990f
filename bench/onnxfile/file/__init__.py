"""Reading an ONNX file: its wiring, tensors, interface and digest."""
