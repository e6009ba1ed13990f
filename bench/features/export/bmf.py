"""Bencher Metric Format: JSON that `bencher run --adapter json` takes.

An object with the name of each benchmark, below it the slug of each measure, and below that `value` and, where they are
known, `lower_value` and `upper_value`.

Source: the format's schema, https://bencher.dev/bmf.json, and the types that Bencher reads it into: `BenchmarkName` and
`Slug` in `lib/bencher_valid/src/`, the measures that Bencher knows itself, with their units, in
`lib/bencher_json/src/project/measure/built_in.rs` of https://github.com/bencherdev/bencher.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from bench.api.errors import InputError
from bench.features.export.figures import Benchmark, Figure
from bench.report.writing import as_json

_MEASURES = {"latency_p50_ns": "latency", "size_bytes": "file-size", "model_rss_bytes": "memory"}
"""Slugs by key; Bencher knows `latency` in nanoseconds and `file-size` in bytes, and makes the other measures anew."""
_MOST_OF_A_NAME = 1024  # bytes
_MOST_OF_A_SLUG = 64  # characters


def render(benchmarks: Iterable[Benchmark]) -> str:
    """The figures as a text that ends in a newline.

    Raises:
        InputError: a cell's path is longer than a name may be; Bencher would take nothing of the text.
    """
    by_cell = {}
    for benchmark in benchmarks:
        if len(benchmark.cell.encode()) > _MOST_OF_A_NAME:
            raise InputError(f"Bencher takes names of {_MOST_OF_A_NAME:,} bytes at most, not {benchmark.cell}")
        by_cell[benchmark.cell] = {measure(figure): _metric(figure) for figure in benchmark.figures}
    return as_json(by_cell)


def measure(figure: Figure) -> str:
    """The slug of a figure's measure; each metric has a measure of its own, such as `metric-psnr-db`."""
    named = f"metric {figure.unit}" if figure.key == "metric" else _MEASURES.get(figure.key, figure.name)
    return re.sub(r"[^a-z0-9]+", "-", named.lower())[:_MOST_OF_A_SLUG].strip("-")


def _metric(figure: Figure) -> dict[str, float]:
    numbers = {"value": figure.value, "lower_value": figure.low, "upper_value": figure.high}
    return {name: number for name, number in numbers.items() if number is not None}
