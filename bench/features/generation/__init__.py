"""Deployments of decoders side by side: time to first token, time per output token, and what both cost."""
