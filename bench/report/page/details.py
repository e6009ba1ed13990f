"""The details of one cell on the page: every figure, how it was made, its launches and their raw samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from bench.api import loss_units
from bench.measure.launch import Launch
from bench.records import launches
from bench.records.assemble import PHASES
from bench.records.rows import COLUMNS, Row
from bench.records.store import Record
from bench.report.columns import BYTES, INTERVALS, LOSSES, scale, steps_of, title_of
from bench.report.figures.canvas import digits
from bench.report.writing import DASH, one_line

LONGEST_TEXT = 600
ENDS = {end for ends in INTERVALS.values() for end in ends}
IN_PATH = {"cell", "task", "source", "exporter", "variant", "runtime", "provider", "batch", "threads"}
IN_NOTE = {"reason", "warning"}
ABOVE = {"machine", "measured", "packages", "metric_loss_unit"}
"""Keys of what the page says once, or in other sections."""
CHECKED = ("reference", "verified_by", "num_spot_samples", "num_samples", "metrics", "relative_error", "input_shapes")
STATE = {"load_1m": "load {}", "clock_mhz": "{} MHz", "governor": "governor {}", "temperature_c": "{} °C"}

Section = dict[str, Any]


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


def _figures(row: Row) -> Section:
    lines = []
    for key in COLUMNS:
        value = getattr(row, key)
        if key in IN_PATH | IN_NOTE | ENDS | ABOVE | {"aa_high"} or value is None:
            continue
        if key == "aa_low":
            lines.append(["baseline against its copy", f"[{text_of(key, value)}, {text_of(key, row.aa_high)}]"])
            continue
        text = text_of(key, value, row.metric_loss_unit)
        low, high = (getattr(row, end) for end in INTERVALS.get(key, (key, key)))
        if key in INTERVALS and low is not None and high is not None and low != high:
            text += f" [{text_of(key, low)}, {text_of(key, high)}]"
        lines.append([title_of(key).removesuffix(" (%)"), text])
    return {"title": "Figures", "lines": lines}


def text_of(key: str, value: object, unit: str | None = None) -> str:
    """A value of a row in the unit in which it reads best.

    Args:
        key: key of the row.
        value: its value.
        unit: of a loss of the metric, that in which it is told.
    """
    if value is None:
        return DASH
    if steps := steps_of(key):
        assert isinstance(value, (int, float))
        if steps is BYTES and abs(value) < BYTES[0][0]:
            return f"{value:.0f} B"
        factor, unit = scale([value], steps)
        return f"{digits(value / factor, 4)} {unit}".strip()
    if key in LOSSES:
        return loss_units.text(float(str(value)), unit, digits=3)
    if key == "input_spread" or key.endswith("_share"):
        return f"{100 * float(str(value)):.3g} %"
    if isinstance(value, float):
        return f"{value:.4f}" if key.startswith(("ratio", "aa_")) else f"{value:.5g}"
    return f"{value:,}" if isinstance(value, int) else one_line(str(value))


def _making(record: Record) -> list[Section]:
    header, artifact = record.header, record.header.artifact
    info = artifact.info if artifact else {}
    facts = {key: getattr(artifact, key, None) for key in ("format", "sha256", "size_bytes", "canonical")}
    facts |= {key: value for key, value in info.items() if key != "versions"}
    if header.origin is not UNSET:
        facts = {"model": header.origin, **facts}
    operators = (artifact and artifact.operators) or {}
    counts = sorted(operators.items(), key=lambda item: (-item[1], item[0]))
    checked = {key: value for key in CHECKED if (value := getattr(record.quality, key, UNSET)) is not UNSET}
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
            text = text_of(key, value) if key == "size_bytes" else _text(value)
            lines.append([name.removesuffix("_bytes").replace("_", " ") if not prefix else name, text])
    return lines


def _text(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    text = one_line(", ".join(map(str, value)) if isinstance(value, (list, tuple)) else text)
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def _launch(launch: Launch) -> dict[str, Any]:
    samples = launches.samples(launch)
    state = [(text, getattr(launch.machine, key, None)) for key, text in STATE.items()]
    said = [text.format(value) for text, value in state if value is not None]
    phases = launch.memory.phases
    peaks = [phases["imports"].rss_bytes, *(phases[name].peak_rss_bytes for name in PHASES)]
    return {
        "time": launch.time,
        "num_samples": samples.num_samples,
        "median_us": _microseconds(samples.median_ns),
        "max_us": _microseconds(samples.max_ns),
        "load": text_of("_ns", launch.load_ns),
        "first": text_of("_ns", launch.first_inference_ns),
        "peaks": [text_of("_bytes", peak) for peak in peaks],
        "state": ", ".join([*said, *([] if launch.quiet else ["never came to rest"])]),
        "samples_us": [_microseconds(sample) for sample in samples.kept_ns],
    }


def _microseconds(value_ns: float | None) -> float | None:
    """A time in microseconds to five significant digits: more than a picture shows."""
    return None if value_ns is None else float(f"{value_ns / 1e3:.5g}")
