"""The roofline as text: a machine's peaks, and how near each row comes to them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from bench.api.printable import printable
from bench.measure.roofline import Peaks
from bench.records import machines
from bench.records.ranking import select
from bench.records.rows import Row
from bench.report import tables, writing

WIDTH = 120
COLUMNS = ("cell", "precision", "latency_p50_ns", "macs", "gmacs_per_s", "peak_share", "roof_share", "bound")
PEAK_KEYS = ("macs_per_s", "bytes_per_s")
LEGEND = (
    "Of the peak: MACs a second over the most that a product of two matrices of 1024 rows and columns reached in this "
    "precision. Of the roof: the time that the MACs at the peak, or the weights, inputs and outputs moved once at the "
    "rate of a copy, would take at least, over the latency; what stays in the caches is not moved, so it may pass 100. "
    "Bound by: the longer of the two. MACs of files that are no ONNX are those of the task's plain export."
)


def render(rows: Sequence[Row], peaks: Mapping[int, Peaks], *, format: str) -> str:
    """The peaks and the rows as text.

    Args:
        rows: the rows of any cells; rows without a latency or without MACs are left out.
        peaks: the peaks of the machine, by number of threads.
        format: a format of `tables.render`; `csv` has the rows alone, in raw units.
    """
    timed = [row for row in rows if row.latency_p50_ns is not None and row.macs is not None]
    if format == "csv":
        return tables.render(timed, format="csv", columns=COLUMNS)
    if format == "json":
        found = {number: {key: getattr(peak, key) for key in PEAK_KEYS} for number, peak in peaks.items()}
        measured = machines.headline(timed)
        return writing.as_json(
            {"measured": measured, "peaks": found, "cells": tables.raw(select(timed, columns=COLUMNS))}
        )
    selection = select(timed, columns=COLUMNS, sort="-gmacs_per_s")
    legend = textwrap.fill(LEGEND, WIDTH) if format == "table" else LEGEND
    found = _peaks(peaks, format)
    head = writing.above([machines.headline(timed)], format, WIDTH) + ("" if format == "md" else "\n") + found
    return "\n".join([head, tables.render_selection(selection, format=format), legend]) + "\n"


def _peaks(peaks: Mapping[int, Peaks], format: str) -> str:
    if not peaks:
        return "No peaks were measured on this machine; `bench roofline` measures them there.\n"
    precisions = sorted({name for peak in peaks.values() for name in peak.macs_per_s})
    titles = ["threads", *(f"{name} (GMAC/s)" for name in precisions), "memory copy (GB/s)"]
    lines = []
    for threads, peak in peaks.items():
        rates = {name: f"{rate / 1e9:.1f} ({peak.libraries[name]})" for name, rate in peak.macs_per_s.items()}
        shown = [rates.get(name, writing.DASH) for name in precisions]
        lines.append([str(threads), *shown, f"{peak.bytes_per_s / 1e9:.1f}"])
    texts = [[*map(printable, line)] for line in (titles, *lines)]
    return writing.plain(texts[0], texts[1:], format="md" if format == "md" else "table")
