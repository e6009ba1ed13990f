"""The JSON array that github-action-benchmark takes with `tool: customSmallerIsBetter`.

Every figure is an entry with `name`, `value`, `unit`, `range` and `extra`. The action compares entries of one name by
the ratio of their values, and takes each for better when it is smaller. So a metric of which more is better is told in
the `extra` of the latency, and so is the loss of the metric, which may be zero.

Source: `BenchmarkResult` and `extractCustomBenchmarkResult` in `src/extract.ts`, `src/extractRangeInfo.ts` (a range is
`± number`) and `src/write.ts` (the comment) of https://github.com/benchmark-action/github-action-benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from bench.features.export.figures import Benchmark, Figure
from bench.report.writing import as_json

PLAIN = re.compile(r"[^\w%./ -]+", re.ASCII)
"""What a unit is written without: the action puts it into Markdown as it is."""
_BESIDE = re.compile(r"[^\w%./ +:,-]+", re.ASCII)
"""What the machine, the time and the packages are written without, likewise."""
_UNITS = {"ns": (1e6, "ms"), "bytes": (1e6, "MB"), "share": (0.01, "%")}
"""Units that read better in a comment, and how much of the figure's own unit each is."""


def render(benchmarks: Iterable[Benchmark]) -> str:
    """The figures as a text that ends in a newline."""
    return as_json([entry for benchmark in benchmarks for entry in _entries(benchmark)])


def _entries(benchmark: Benchmark) -> list[dict[str, object]]:
    compared = [figure for figure in benchmark.figures if not figure.higher_is_better and figure.key != "metric_loss"]
    others = [figure for figure in benchmark.figures if figure not in compared]
    return [_entry(benchmark, figure, others if figure.key == "latency_p50_ns" else []) for figure in compared]


def _entry(benchmark: Benchmark, figure: Figure, others: Iterable[Figure]) -> dict[str, object]:
    factor, unit = scale(figure)
    entry: dict[str, object] = {
        "name": f"{benchmark.cell}: {figure.name}",
        "unit": unit,
        "value": rounded(figure.value / factor),
    }
    extra = []
    if figure.low is not None and figure.high is not None:
        entry["range"] = f"± {rounded(max(figure.high - figure.value, figure.value - figure.low) / factor)}"
        extra.append(f"95 % interval: {rounded(figure.low / factor)} to {rounded(figure.high / factor)} {unit}")
    if figure.key == "ratio" and benchmark.baseline:
        extra.append(f"baseline: {benchmark.baseline}")
    extra += [f"{other.name}: {_told(other)}" for other in others]
    packages = ", ".join(f"{name} {version}" for name, version in sorted(benchmark.versions.items()))
    measured = f"measured on {benchmark.machine} at {benchmark.time}{' with ' * bool(packages)}{packages}"
    extra += [f"launches: {benchmark.num_launches}", _BESIDE.sub("?", measured)]
    return {**entry, "extra": "\n".join(extra)}


def _told(figure: Figure) -> str:
    factor, unit = scale(figure)
    bound = "" if figure.high is None else f", at most {rounded(figure.high / factor)} {unit}"
    return f"{rounded(figure.value / factor)} {unit}{bound}"


def scale(figure: Figure) -> tuple[float, str]:
    """The number by which a figure is divided, and its unit after that, as Markdown and a terminal show it."""
    factor, unit = _UNITS.get(figure.unit, (1.0, figure.unit)) if figure.key != "metric" else (1.0, figure.unit)
    return factor, PLAIN.sub("?", unit)


def rounded(value: float) -> float:
    """A number with six significant digits, because the action writes all digits that there are."""
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() else short
