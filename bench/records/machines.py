"""What stands above every table: the machine that the rows were measured on, when, and with which packages."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

from bench.measure import machine as this_machine
from bench.measure import processors
from bench.records.rows import TO, Row

_MORE = ", ..."
"""The end of packages that have no room."""


def sentences(rows: Sequence[Row], room: int | None = None) -> list[str]:
    """The sentences above a table of rows: the machine with the days, and the packages.

    Args:
        rows: the rows.
        room: characters that the packages may have, at most; None for any number.
    """
    return [*filter(None, (headline(rows), _packages(rows, room)))]


def headline(rows: Iterable[Row]) -> str:
    """`Measured on AMD EPYC, Zen 5 (family 26, model 2), 2 cores; 2026-11-22 to 2026-11-23.`

    Rows of two machines name both, each with its days; empty where no row tells.
    """
    return sentence((row.machine, (row.measured or "").split(TO)) for row in rows)


def headline_today() -> str:
    """The same of this machine and the present day."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return sentence([(processors.description(this_machine.describe()), [today])])


def sentence(seen: Iterable[tuple[str | None, Iterable[str]]]) -> str:
    """The sentence of `headline` for machines, each with its days."""
    days: dict[str, set[str]] = {}
    for machine, own in seen:
        if machine is not None:
            days.setdefault(machine, set()).update(filter(None, own))
    if not days:
        return ""
    texts = [
        "; ".join(filter(None, (machine, TO.join(dict.fromkeys((min(own), max(own)))) if own else "")))
        for machine, own in sorted(days.items())
    ]
    return f"Measured on {'; and on '.join(texts)}."


def _packages(rows: Iterable[Row], room: int | None) -> str:
    """`With numpy 2.3.4, onnxruntime 1.20.0 and 1.23.2.`; empty where no row tells."""
    versions: dict[str, dict[str, None]] = {}
    for said in dict.fromkeys(row.packages for row in rows if row.packages):
        for package in said.split(", "):
            name, _, version = package.rpartition(" ")
            versions.setdefault(name, {})[version] = None
    if not versions:
        return ""
    names = [f"{name} {' and '.join(versions[name])}" for name in sorted(versions, key=str.lower)]
    text = f"With {', '.join(names)}."
    if room is None or len(text) <= room:
        return text
    return text[: room - len(_MORE)].rpartition(",")[0] + _MORE
