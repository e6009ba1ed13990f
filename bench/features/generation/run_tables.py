"""What `bench run` prints of decoders below its rows."""

from __future__ import annotations

from collections.abc import Sequence

from bench.features.generation import render
from bench.features.generation.deployments import deployments
from bench.records.folder import Results
from bench.records.rows import Row


def below_rows(stored: Results, rows: Sequence[Row]) -> str:
    """The tables for a terminal; empty where no cell is of a decoder that generates."""
    decoders = deployments(stored, rows)
    return render.render(decoders, format="table") if decoders else ""
