"""The activation memory of an ONNX graph: lifetimes, a plan, and what a runtime takes."""
