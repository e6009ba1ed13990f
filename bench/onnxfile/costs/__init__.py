"""The cost of the nodes of an ONNX graph: MACs, other operations, parameters and bytes."""
