"""What `bench show --sweep generation` prints."""

from __future__ import annotations

from collections.abc import Sequence

from bench.features.generation import render
from bench.features.generation.deployments import deployments
from bench.records.folder import Results
from bench.records.rows import Row


def _of_decoders(stored: Results, rows: Sequence[Row], format: str) -> str:
    """The tables of the decoders among some rows.

    Args:
        stored: all results.
        rows: rows of cells.
        format: `table` or `md`.

    Raises:
        InputError: another format, or no cell is of a decoder that generates.
    """
    return render.render(deployments(stored, rows), format=format)


TABLES = {"generation": _of_decoders}
"""The tables by the name that `--sweep` takes."""
