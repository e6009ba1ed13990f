"""What a model costs without running it: MACs, bytes and memory by operator, and the bounds of a decoder."""
