"""Folders of results as one text: the content of each file under a line with its name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from bench.measure.comparison import CELL, CONTROL, REFERENCE
from bench.records.lines import Failure, Line, Reset
from bench.records.metric_loss import Lost
from bench.records.store import CURRENT, Record
from support import records as made

NAME = re.compile(rb"^=== ([a-z]{1,20}\.jsonl?)$", re.MULTILINE)
"""The line above the content of a file, with the file's name; `current.json` and `peaks.json` have one, too."""
LOST = Lost(num_samples=100, score=0.75, most=1.0, points=((3, 1.0),))
PEAKS = b'{"1":{"macs_per_s":{"float32":1e11},"libraries":{"float32":"numpy"},"bytes_per_s":1e10}}'
TIME = "2026-01-01T00:00:00+00:00"
MACHINE = {"name": "machine", "cpu": "a processor", "cores": 2, "system": "Linux"}


def write(content: bytes, folder: Path) -> None:
    """Write the files of a folder of results; of two files with the same name, the second stays."""
    for name, text in files(content):
        (folder / name).write_bytes(text)


def files(content: bytes) -> Iterator[tuple[str, bytes]]:
    """The names and contents of the files."""
    _, *parts = NAME.split(content)
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        yield name.decode(), text.removeprefix(b"\n")


def seeds() -> Iterator[bytes]:
    """Folders with a baseline, a faster cell, a broken cell and a failed cell, some of them alone."""
    baseline = _text("raw", made.baseline(a=1000, b=2000))
    halved = [made.launch(block, CELL, ns) for block, ns in {"a": 500, "b": 1000}.items()]
    judged = made.quality(metric_loss=0.01, lost=LOST, placement=None, warning="it warns")
    halve = _text("halve", made.record(made.HALVE, *halved, quality=judged))
    in_db = {"metric_loss_unit": "dB", "convention": "a sample is taken to lose at most 1 dB"}
    sharp = _text("sharp", made.record(made.HALVE, *halved, quality=replace(judged, **in_db)))
    broken = made.record(made.PRUNE, quality=made.quality(fidelity="broken", reason="of other shapes"))
    failed = made.record(made.OTHER_GROUP, quality=None, failure=Failure(stage="open", reason="no"), artifact=False)
    current = b'=== current.json\n{"%b":"raw"}\n=== peaks.json\n%b\n' % (made.BASELINE.encode(), PEAKS)
    assert CURRENT == "current.json"
    yield baseline + halve
    yield baseline + sharp
    yield baseline + _text("prune", broken) + _text("other", failed) + current
    yield baseline + _line(Reset()) + _line(made.launch("c", REFERENCE, 900)) + _line(made.launch("c", CONTROL, 900))


def _text(name: str, record: Record) -> bytes:
    """A record as a file; each pass keeps one sample, so that mutations meet the other fields more often."""
    header = replace(
        record.header, key=name, machine=MACHINE, versions={"null": "1.0", "numpy": None}, schema=2, time=TIME
    )
    launches = [
        replace(launch, steady_ns=launch.steady_ns[:2], cold_ns=launch.cold_ns[:1]) for launch in record.launches
    ]
    lines = [header, record.quality, *launches, record.failure]
    return b"=== %b.jsonl\n" % name.encode() + b"".join(_line(line) for line in lines if line is not None)


def _line(line: Line) -> bytes:
    return msgspec.json.encode(line) + b"\n"
