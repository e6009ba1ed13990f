"""Stored results: the store, the rows made from it and their ranking."""
