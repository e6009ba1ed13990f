"""Helpers that several tests share: made-up records, small models, and programs that run in child processes."""
