"""The weights of an ONNX file: statistics, sparsity and quantization."""
