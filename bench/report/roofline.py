"""The roofline as text: a machine's peaks, and how near each row comes to them."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from bench.api.printable import printable
from bench.measure.roofline import COPY, Peaks
from bench.records import machines
from bench.records.ranking import select
from bench.records.rows import Row
from bench.report import tables, writing

WIDTH = 120
COLUMNS = ("cell", "precision", "latency_p50_ns", "macs", "gmacs_per_s", "peak_share", "roof_share", "bound")
_PEAK_KEYS = ("macs_per_s", "bytes_per_s", "undisturbed")
_LEGEND = (
    "Of the peak: MACs a second over the most that a product of two matrices of 1024 rows and columns reached in this "
    "precision; a better kernel, or Winograd's, which needs fewer multiplications, may pass 100. Of the roof: the time "
    "that the MACs at the peak, or the weights, inputs and outputs moved once at the rate of a copy, would take at "
    "least, over the latency; what stays in the caches is not moved, so it may pass 100. "
    "Bound by: the longer of the two. MACs of files that are no ONNX are those of the task's plain export."
)
_MARK = "*"
"""Behind a rate that may be too low."""
_MARK_MEANS = (
    f"{_MARK}: not known to have been measured undisturbed, so the machine may reach more; `bench roofline --force` "
    "measures again."
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
        by_threads = {number: {key: getattr(peak, key) for key in _PEAK_KEYS} for number, peak in peaks.items()}
        measured = machines.headline(timed)
        return writing.as_json(
            {"measured": measured, "peaks": by_threads, "cells": tables.raw(select(timed, columns=COLUMNS))}
        )
    selection = select(timed, columns=COLUMNS, sort="-gmacs_per_s")
    legend = textwrap.fill(_LEGEND, WIDTH) if format == "table" else _LEGEND
    is_said_below = format == "table" and bool(selection.groups)
    head = "" if is_said_below else writing.paragraph([machines.headline(timed)], format, WIDTH)
    head += "\n" if head and format == "table" else ""
    head += _peaks(_shown(peaks, timed) if format == "table" else peaks, format)
    beyond = above_peak(timed, peaks)
    legend = "\n".join([*(map(_filled, beyond) if format == "table" else beyond), legend])
    return "\n".join([head, tables.render_selection(selection, format=format), legend]) + "\n"


def _shown(peaks: Mapping[int, Peaks], rows: Sequence[Row]) -> Mapping[int, Peaks]:
    """The peaks with the threads and in the precisions of rows; all of them without rows."""
    if not rows:
        return peaks
    precisions = {row.precision for row in rows}
    return {
        number: dataclasses.replace(
            peak, macs_per_s={name: rate for name, rate in peak.macs_per_s.items() if name in precisions}
        )
        for number, peak in peaks.items()
        if any(row.threads == number for row in rows)
    }


def _peaks(peaks: Mapping[int, Peaks], format: str) -> str:
    if not peaks:
        return "No peaks were measured on this machine; `bench roofline` measures them there.\n"
    precisions = sorted({name for peak in peaks.values() for name in peak.macs_per_s})
    titles = ["threads", *(f"{name} (GMAC/s)" for name in precisions), "memory copy (GB/s)"]
    lines = []
    for threads, peak in peaks.items():
        marks = {name: "" if name in peak.undisturbed else _MARK for name in (*peak.macs_per_s, COPY)}
        rates = {
            name: f"{rate / 1e9:.1f}{marks[name]} ({peak.libraries[name]})" for name, rate in peak.macs_per_s.items()
        }
        shown = [rates.get(name, writing.DASH) for name in precisions]
        lines.append([str(threads), *shown, f"{peak.bytes_per_s / 1e9:.1f}{marks[COPY]}"])
    texts = [[*map(printable, line)] for line in (titles, *lines)]
    table = writing.plain(texts[0], texts[1:], format="md" if format == "md" else "table")
    is_marked = any({*peak.macs_per_s, COPY} - {*peak.undisturbed} for peak in peaks.values())
    means = f"\\{_MARK_MEANS}" if format == "md" else _filled(_MARK_MEANS)
    return f"{table}\n{means}\n" if is_marked else table


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH)


def above_peak(rows: Iterable[Row], peaks: Mapping[int, Peaks]) -> list[str]:
    """Why rows are above the peak, in a sentence for each number of threads and precision.

    Args:
        rows: rows of any cells.
        peaks: the peaks of the machine, by number of threads.
    """
    beyond: dict[tuple[int, str], list[float]] = {}
    for row in rows:
        if row.peak_share is not None and row.peak_share > 1 and row.precision is not None:
            beyond.setdefault((row.threads, row.precision), []).append(row.peak_share)
    sentences = []
    for (threads, precision), shares in sorted(beyond.items()):
        many = f"{len(shares)} row{'s are' if len(shares) > 1 else ' is'}"
        what = f"{many} above the peak in {precision} at {threads} thread{'s' * (threads > 1)}"
        most = f"up to {100 * max(shares):.0f} %"
        if threads in peaks and precision in peaks[threads].undisturbed:
            why = "it was measured undisturbed, so they multiply faster than that product, or less than is counted"
        else:
            why = "it may have been disturbed when it was measured; `bench roofline --force` raises it if it was"
        sentences.append(f"{what}, {most}: {why}.")
    return sentences
