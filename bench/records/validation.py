"""Faults of lines whose types are right: values that nothing can have, or that contradict each other."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Iterator

from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.measure.launch import Launch
from bench.records.line_fault import LARGEST, Fault, of_facts
from bench.records.lines import Failure, FeatureLine, Header, Line, Quality, Reset
from bench.records.metric_loss import Lost

PHASES = ("imports", "load", "first_inference", "steady")
"""The phases that the memory of every launch has."""
_MOST_AT_ONCE = 10**9
"""Largest batch, and largest number of threads."""
LAST_YEAR = 2999


def of(line: Line) -> Fault | None:
    """The first fault of a line; None for a sound line."""
    return next(_of(line), None)


def _of(line: Line) -> Iterator[Fault]:
    if line.time and (wrong := _of_time(line.time)) is not None:
        yield wrong
    match line:
        case Header():
            yield from _of_header(line)
        case Quality(lost=Lost() as lost):
            yield from _of_lost(lost)
        case Launch():
            yield from _of_launch(line)
        case FeatureLine():
            yield from line.faults()
        case Reset() if line.launches not in (None, "launch", "thread_launch"):
            yield Fault(field="launches", reason=f"{line.launches!r} is no kind of launches")
        case Failure() if not line.stage:
            yield Fault(field="stage", reason="it is empty")


@functools.lru_cache(maxsize=1024)  # many lines are of one second
def _of_time(text: str) -> Fault | None:
    try:
        time = datetime.datetime.fromisoformat(text)
        time.timestamp()
    except (ValueError, OverflowError, OSError):
        return Fault(field="time", reason=f"{text[:40]!r} is no time")
    if time.year > LAST_YEAR:
        return Fault(field="time", reason=f"the year {time.year} is far in the future")
    return None


def _of_header(line: Header) -> Iterator[Fault]:
    try:
        cell = Cell.from_path(line.cell)
    except InputError as error:
        yield Fault(field="cell", reason=str(error))
        return
    if max(cell.batch, cell.threads) > _MOST_AT_ONCE:
        yield Fault(field="cell", reason=f"{line.cell!r}: batch and threads are at most {_MOST_AT_ONCE}")
    if "gpus" in line.machine and not isinstance(line.machine["gpus"], list):
        yield Fault(field="machine.gpus", reason="it is no list")
    yield from of_facts("machine", line.machine)
    artifact = line.artifact
    if artifact is None:
        return
    numbers = {"size_bytes": artifact.size_bytes, "num_params": artifact.num_params, **(artifact.operators or {})}
    for name, number in numbers.items():
        if number is not None and not 0 <= number <= LARGEST:
            yield Fault(field=f"artifact.{name}", reason=f"it is not between 0 and {LARGEST}")
    if not isinstance(artifact.info.get("note"), str | None):
        yield Fault(field="artifact.info.note", reason="it is no text")
    if not isinstance(artifact.info.get("versions"), dict | None):
        yield Fault(field="artifact.info.versions", reason="it is no object")
    yield from of_facts("artifact.info", artifact.info)


def _of_lost(lost: Lost) -> Iterator[Fault]:
    numbers = [number for number, _ in lost.points]
    if len(numbers) != len(set(numbers)) or max(numbers, default=0) >= lost.num_samples:
        yield Fault(field="lost.points", reason=f"they are not of different samples below {lost.num_samples}")


def _of_launch(line: Launch) -> Iterator[Fault]:
    phases = line.memory.phases
    if missing := [name for name in PHASES if name not in phases]:
        yield Fault(field="memory.phases", reason=f"there is no {missing[0]!r}")
    for name, phase in phases.items():
        for size in (phase.peak_rss_bytes, phase.rss_bytes, phase.private_bytes):
            if size is not None and not 0 <= size <= LARGEST:
                yield Fault(field=f"memory.phases.{name}", reason=f"a size is not between 0 and {LARGEST}")
    if not line.steady_ns:
        yield Fault(field="steady_ns", reason="it is empty")
    if line.machine is not None:
        yield from of_facts("machine", dataclasses.asdict(line.machine))
