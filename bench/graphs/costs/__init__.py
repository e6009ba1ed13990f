"""What the nodes of an ONNX graph cost: MACs, parameters and bytes."""
