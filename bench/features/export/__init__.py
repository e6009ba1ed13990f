"""Formats in which other tools take the figures of cells, for a history of benchmarks that is kept elsewhere.

Each format is a file here. What all of them export of a cell is in `figures`.
"""
