"""OpenVINO's operations as ONNX nodes, for the commands that read graphs."""
