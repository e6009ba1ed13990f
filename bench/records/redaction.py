"""Stored lines and rows without the places of a machine and its user, so that they may be sent to others."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from msgspec.structs import replace

from bench.api.places import without_places
from bench.records.lines import Failure, Header, Line, Quality
from bench.records.measured_cell import Measured
from bench.records.rows import Row

AnyLine = TypeVar("AnyLine", bound=Line)
AnyRecord = TypeVar("AnyRecord", bound=Measured)


def fit_to_send(line: AnyLine, *, system: bool = True) -> AnyLine:
    """A line whose free texts name no home folder, user or host, and no absolute path of a person's files.

    Free texts are the reason and the log of a failure, the reason, the doubts and the warning of a verification, what
    its bound on the lost metric takes for granted, the sentences on weights that are stored more than once, and what an
    exporter or a variant tells of its artifact. The other fields are names, digests and figures.

    Args:
        line: the line.
        system: whether paths of the system stay, see `without_places`.
    """
    match line:
        case Failure():
            texts = {"reason": line.reason, "detail": line.detail}
        case Quality():
            keys = ("reason", "doubts", "warning", "lost", "convention", "repeated")
            texts = {key: getattr(line, key) for key in keys}
        case Header() if line.artifact is not None:
            facts = {key: without_places(getattr(line.artifact, key), system=system) for key in ("info", "repeated")}
            return replace(line, artifact=dataclasses.replace(line.artifact, **facts))
        case _:
            return line
    changed = {key: without_places(text, system=system) for key, text in texts.items() if isinstance(text, str)}
    return replace(line, **changed)


def record_to_send(record: AnyRecord) -> AnyRecord:
    """A record whose free texts name no absolute path, home folder, user or host; not even a path of the system."""
    lines = {key: getattr(record, key) for key in ("header", "quality", "failure")}
    changed = {key: fit_to_send(line, system=False) for key, line in lines.items() if line is not None}
    return dataclasses.replace(record, **changed)


def row_to_send(row: Row) -> Row:
    """A row whose reason and notes name no absolute path, home folder, user or host."""
    keys = ("reason", "warning", "metric_loss_note", "convention", "judged_as", "num_params_note")
    texts = {key: getattr(row, key) for key in keys}
    return dataclasses.replace(row, **{key: without_places(text, system=False) for key, text in texts.items()})
