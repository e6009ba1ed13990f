"""Fuzzing: what Inferometer reads from others is mutated, and whatever breaks a rule is kept as a small file."""
