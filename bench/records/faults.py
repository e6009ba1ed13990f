"""Faults of lines whose types are right: values that nothing can have, or that contradict each other."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.measure.launch import Launch
from bench.measure.load.launch import PERCENTILES, SHAPE, LoadLaunch, LoadRun
from bench.records.lines import Failure, Header, Line, Quality, Reset
from bench.records.metric_loss import Lost

PHASES = ("imports", "load", "first_inference", "steady")
"""The phases that the memory of every launch has."""
LARGEST = 2**63 - 1
"""The largest whole number of a line; a larger number has no float to compute with."""
MOST_AT_ONCE = 10**9
"""Largest batch, and largest number of threads."""
LAST_YEAR = 2999
DEEPEST = 20
"""Levels of lists and objects in the facts that a machine or a step tells."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong with a line, and the field that it is wrong in."""

    field: str
    reason: str


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
        case LoadLaunch():
            yield from _of_load_launch(line)
        case LoadRun():
            yield from _of_load_run(line)
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
    if max(cell.batch, cell.threads) > MOST_AT_ONCE:
        yield Fault(field="cell", reason=f"{line.cell!r}: batch and threads are at most {MOST_AT_ONCE}")
    if "gpus" in line.machine and not isinstance(line.machine["gpus"], list):
        yield Fault(field="machine.gpus", reason="it is no list")
    yield from _of_facts("machine", line.machine)
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
    yield from _of_facts("artifact.info", artifact.info)


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
        yield from _of_facts("machine", dataclasses.asdict(line.machine))


def _of_load_launch(line: LoadLaunch) -> Iterator[Fault]:
    if line.slices_ns and {*line.slices_ns} != {*PERCENTILES}:
        yield Fault(field="slices_ns", reason=f"it is not of {', '.join(PERCENTILES)}")
    if {len(values) for values in line.slices_ns.values()} - {len(line.requests)}:
        yield Fault(field="slices_ns", reason="it has another number of slices than requests")
    if line.slices_ns and len(line.shape_ns) != len(SHAPE):
        yield Fault(field="shape_ns", reason=f"it has not {len(SHAPE)} percentiles")
    if line.bound is not None and line.bound[0] not in PERCENTILES:
        yield Fault(field="bound", reason=f"{line.bound[0]!r} is no percentile")
    if line.highest_ns and line.bound is None:
        yield Fault(field="highest_ns", reason="there is no bound")
    if line.machine is not None:
        yield from _of_facts("machine", dataclasses.asdict(line.machine))


def _of_load_run(line: LoadRun) -> Iterator[Fault]:
    if line.shape_ns and len(line.shape_ns) != len(SHAPE):
        yield Fault(field="shape_ns", reason=f"it has not {len(SHAPE)} percentiles")
    if len(line.waiting) != len(line.batches):
        yield Fault(field="waiting", reason="it has another number of times than batches")
    yield from _of_facts("settings", line.settings)
    yield from _of_facts("figures", line.figures)


def _of_facts(field: str, value: object) -> Iterator[Fault]:
    """Faults of free facts: numbers that are out of range, and lists or objects within too many others."""
    if not _is_sound(value):  # to name the fault takes far longer
        yield from _within(field, value, 0)


def _is_sound(value: object, depth: int = 0) -> bool:
    """Whether facts have no such fault."""
    if depth > DEEPEST:
        return False
    if isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            if inner is None or type(inner) in (str, bool):
                continue
            if not (_is_fine(inner) if type(inner) in (int, float) else _is_sound(inner, depth + 1)):
                return False
        return depth < DEEPEST or not value
    return not isinstance(value, int | float) or _is_fine(value)


def _within(field: str, value: object, depth: int) -> Iterator[Fault]:
    if depth > DEEPEST:
        yield Fault(field=field, reason="it is nested too deeply")
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _within(f"{field}.{name}" if depth == 0 else field, inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _within(field, inner, depth + 1)
    elif isinstance(value, int | float) and not _is_fine(value):
        yield Fault(field=field, reason=f"a number is beyond {LARGEST}")


def _is_fine(value: Any) -> bool:
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= LARGEST
