"""Records made by hand, for tests of reports."""

from __future__ import annotations

import dataclasses
import datetime
import zlib
from typing import Any

from msgspec.structs import replace

from bench.api.artifact import Facts
from bench.api.cell import Cell
from bench.measure.comparison import CONTROL, REFERENCE
from bench.measure.launch import Launch
from bench.measure.memory import Memory, Phase
from bench.measure.subject import Request, Subject
from bench.records.lines import Failure, Header, Line, Quality
from bench.records.store import Record

BASELINE = "toy/null/native/raw/null/cpu/b2t1"
HALVE = "toy/null/native/halve/null/cpu/b2t1"
PRUNE = "toy/null/native/prune/null/cpu/b2t1"
OTHER_GROUP = "toy/null/native/raw/null/cpu/b1t1"
PASSES = 5
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
QUALITY = Quality(
    reference="toy/null/native/raw/null/cpu/b1t1",
    fidelity="close",
    loss=0.25,
    metrics={"accuracy": 0.75, "other": 3.0},
    metric_name="accuracy",
    higher_is_better=True,
    max_abs_error=0.5,
    relative_error=0.1,
    precision="float32",
    num_params=12,
    rss_bytes=1000,
)


def quality(**changed: Any) -> Quality:
    """`QUALITY` with other values for some fields."""
    return replace(QUALITY, **changed)


def time_of(block: str) -> str:
    """A time of its own for each block, hours from those of the others: no state of a machine lasts so long."""
    return (START + datetime.timedelta(hours=zlib.crc32(block.encode()) % 100_000)).isoformat(timespec="seconds")


def launch(block: str, role: str, ns: int, *, reference: str = BASELINE, **more: Any) -> Launch:
    phases = {
        name: Phase(name=name, peak_rss_bytes=peak, rss_bytes=rss, private_bytes=1)
        for name, peak, rss in (
            ("imports", 900, 100),
            ("load", 150, 140),
            ("first_inference", 400, 180),
            ("steady", 200, 190),
        )
    }
    fields: dict[str, Any] = {
        "launch": f"{block}-{role}-{ns}",
        "block": block,
        "role": role,
        "reference": reference,
        "steady_ns": ((ns, ns + 2),) * PASSES,
        "cold_ns": ((99 * ns,),) * PASSES,
        "load_ns": 1_000,
        "first_inference_ns": 2_000,
        "memory": Memory(method="kernel", phases=phases),
        "time": time_of(block),
    }
    return Launch(**{**fields, **more})


def replaced(found: Launch, **changed: Any) -> Launch:
    """The same launch with other values for some fields."""
    return replace(found, **changed)


def record(
    path: str,
    *launches: Launch,
    quality: Quality | None = QUALITY,
    failure: Failure | None = None,
    canonical: str | None = None,
    artifact: bool = True,
    subject: str = "weights",
    time: str = "now",
) -> Record:
    made = Facts(format="null", sha256=path, size_bytes=31, canonical=canonical)
    header = Header(
        key=f"key of {path}", cell=path, subject=(subject, None), artifact=made if artifact else None, time=time
    )
    lines: list[Line] = [header, *(line for line in (quality, *launches, failure) if line is not None)]
    return Record.from_lines(lines)


def with_artifact(found: Record, **facts: Any) -> Record:
    """The same record of an artifact with other facts."""
    assert found.header.artifact is not None
    artifact = dataclasses.replace(found.header.artifact, **facts)
    return dataclasses.replace(found, header=replace(found.header, artifact=artifact))


def replaced_quality(found: Record, **changed: Any) -> Record:
    """The same record with other values for some fields of its quality."""
    assert found.quality is not None
    return dataclasses.replace(found, quality=replace(found.quality, **changed))


def baseline(path: str = BASELINE, **blocks: int) -> Record:
    speeds = blocks or {"a": 1000, "b": 2000}
    lines = [launch(block, role, ns, reference=path) for block, ns in speeds.items() for role in (REFERENCE, CONTROL)]
    return record(path, *lines)


def subject(cell: Cell, *, key: str | None = None, rss_bytes: int = 1) -> Subject:
    """A cell ready to be measured by a fake block."""
    nothing = Request(operation=dict, arguments={})
    return Subject(
        cell=cell, key=key or cell.path, environment={}, imports=nothing, opening=nothing, rss_bytes=rss_bytes
    )
