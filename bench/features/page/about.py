"""Facts about the results on the page: the machine, the days, how much was measured, and with which packages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from bench.measure import processors
from bench.records.ranking import is_timed
from bench.records.rows import Row
from bench.records.store import Record


def machine(records: Sequence[Record]) -> str:
    """The machine, and from when to when.

    `AMD EPYC, Zen 5 (family 26, model 2), 2 cores, 24 GiB, Linux x86_64; 2026-11-20 to 2026-11-21`.
    """
    said: dict[str, Any] = next((dict(r.header.machine) for r in records if r.header.machine), {})
    parts = [processors.description(said)]
    parts += [f"{said['memory_gib']} GiB"] if "memory_gib" in said else []
    parts.append(" ".join(str(said[key]) for key in ("system", "architecture") if key in said))
    days = sorted(record.header.time[:10] for record in records)
    return ", ".join(filter(None, parts)) + "; " + " to ".join(dict.fromkeys((days[0], days[-1])))


def counts(rows: Sequence[Row]) -> dict[str, int]:
    """The number of cells of each kind, of their launches and of their timed inferences."""
    statuses = Counter(row.status for row in rows)
    return {
        "cells": len(rows),
        "timed": sum(map(is_timed, rows)),
        "same as another": sum(row.same_as is not None for row in rows),
        "failed": statuses["failed"],
        "skipped": statuses["skipped"],
        "launches": sum(row.num_launches for row in rows),
        "timed inferences": sum(row.num_samples for row in rows),
    }


def versions(records: Sequence[Record]) -> dict[str, str]:
    """Every package that made or ran a cell, with all versions that were recorded."""
    by_package: dict[str, set[str]] = {}
    for record in records:
        info = record.header.artifact.info if record.header.artifact else {}
        for packages in (record.header.versions, info.get("versions") or {}):
            for name, version in packages.items():
                by_package.setdefault(str(name), set()).add(str(version))
    return {name: ", ".join(sorted(by_package[name])) for name in sorted(by_package, key=str.lower)}
