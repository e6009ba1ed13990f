"""Measuring: processes, the clock, blocks, rounds and statistics. It knows no plugin and no model."""
