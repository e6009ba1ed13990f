"""The details of one cell on the page: every figure, how it was made, its launches and their raw samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from bench.api import loss_units
from bench.measure.launch import Launch
from bench.records import launches
from bench.records.assemble import PHASES
from bench.records.columns import BYTES, Unit
from bench.records.rows import COLUMNS, Row
from bench.records.store import Record
from bench.report.columns import scale
from bench.report.figures.canvas import digits
from bench.report.writing import DASH, one_line

_LONGEST_TEXT = 600
_ENDS = {end for column in COLUMNS.values() for end in column.brackets or ()}
"""Keys of ends of intervals, which stand behind the figure."""
_CHECKED = ("reference", "verified_by", "num_spot_samples", "num_samples", "metrics", "relative_error", "input_shapes")
_STATE = {"load_1m": "load {}", "clock_mhz": "{} MHz", "governor": "governor {}", "temperature_c": "{} °C"}

_Section = dict[str, Any]


def details(row: Row, record: Record, beside: Sequence[Launch]) -> dict[str, Any]:
    """A cell as JSON: its path, sections of labelled texts, and its launches.

    Args:
        row: the figures of the cell.
        record: the stored record of the cell.
        beside: the launches that the figures were made of.
    """
    return {
        "cell": row.cell,
        "sections": [section for section in (_figures(row), *_making(record)) if section["lines"]],
        "launches": [_launch(launch) for launch in beside],
        "p50_us": _microseconds(row.latency_p50_ns),
    }


def _figures(row: Row) -> _Section:
    lines = []
    for key, column in COLUMNS.items():
        value = getattr(row, key)
        if key in _ENDS or not column.in_details or value is None:
            continue
        if key == "aa_low":
            ends = f"[{text_of(value, column.unit)}, {text_of(row.aa_high, column.unit)}]"
            lines.append(["baseline against its copy", ends])
            continue
        text = text_of(value, column.unit, row.metric_loss_unit)
        if column.brackets:
            low, high = (getattr(row, end) for end in column.brackets)
            is_interval = low is not None and high is not None and low != high
            text += f" [{text_of(low, column.unit)}, {text_of(high, column.unit)}]" if is_interval else ""
        lines.append([column.title, text])
    return {"title": "Figures", "lines": lines}


def text_of(value: object, unit: Unit = Unit.PLAIN, loss_unit: str | None = None) -> str:
    """A value of a row in the unit in which it reads best.

    Args:
        value: the value.
        unit: how it is stored.
        loss_unit: of a loss of the metric, that in which it is stated.
    """
    if value is None:
        return DASH
    if steps := unit.steps:
        assert isinstance(value, (int, float))
        if steps is BYTES and abs(value) < BYTES[0][0]:
            return f"{value:.0f} B"
        factor, name = scale([value], steps)
        return f"{digits(value / factor, 4)} {name}".strip()
    if unit is Unit.LOSS:
        return loss_units.text(float(str(value)), loss_unit, digits=3)
    if unit is Unit.SHARE:
        return f"{100 * float(str(value)):.3g} %"
    if isinstance(value, float):
        return f"{value:.4f}" if unit is Unit.RATIO else f"{value:.5g}"
    return f"{value:,}" if isinstance(value, int) else one_line(str(value))


def _making(record: Record) -> list[_Section]:
    header, artifact = record.header, record.header.artifact
    info = artifact.info if artifact else {}
    facts = {key: getattr(artifact, key, None) for key in ("format", "sha256", "size_bytes", "canonical")}
    facts |= {key: value for key, value in info.items() if key != "versions"}
    if header.origin is not UNSET:
        facts = {"model": header.origin, **facts}
    operators = (artifact and artifact.operators) or {}
    counts = sorted(operators.items(), key=lambda item: (-item[1], item[0]))
    checked = {key: value for key in _CHECKED if (value := getattr(record.quality, key, UNSET)) is not UNSET}
    return [
        {"title": "How it was made", "lines": _lines({**facts, "recorded": header.time})},
        {"title": "Packages that made it", "lines": _lines(info.get("versions") or {})},
        {"title": "Packages that ran it", "lines": _lines(header.versions)},
        {"title": "How it was checked", "lines": _lines(checked)},
        {"title": "Operators", "lines": [[one_line(name), f"{count:,}"] for name, count in counts]},
    ]


def _lines(values: Mapping[str, Any], prefix: str = "") -> list[list[str]]:
    lines = []
    for key, value in values.items():
        name = prefix + str(key)
        if isinstance(value, Mapping):
            lines += _lines(value, f"{name}.")
        elif value is not None:
            text = text_of(value, Unit.BYTES) if key == "size_bytes" else _text(value)
            lines.append([name.removesuffix("_bytes").replace("_", " ") if not prefix else name, text])
    return lines


def _text(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    text = one_line(", ".join(map(str, value)) if isinstance(value, (list, tuple)) else text)
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


def _launch(launch: Launch) -> dict[str, Any]:
    samples = launches.samples(launch)
    state = [(text, getattr(launch.machine, key, None)) for key, text in _STATE.items()]
    said = [text.format(value) for text, value in state if value is not None]
    phases = launch.memory.phases
    peaks = [phases["imports"].rss_bytes, *(phases[name].peak_rss_bytes for name in PHASES)]
    return {
        "time": launch.time,
        "num_samples": samples.num_samples,
        "median_us": _microseconds(samples.median_ns),
        "max_us": _microseconds(samples.max_ns),
        "import": text_of(launch.import_ns, Unit.TIME),
        "load": text_of(launch.load_ns, Unit.TIME),
        "first": text_of(launch.first_inference_ns, Unit.TIME),
        "peaks": [text_of(peak, Unit.BYTES) for peak in peaks],
        "state": ", ".join([*said, *([] if launch.quiet else ["never came to rest"])]),
        "samples_us": [_microseconds(sample) for sample in samples.kept_ns],
    }


def _microseconds(value_ns: float | None) -> float | None:
    """A time in microseconds to five significant digits: more than a picture shows."""
    return None if value_ns is None else float(f"{value_ns / 1e3:.5g}")
