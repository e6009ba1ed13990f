"""The store under kills, full disks and lost power: bytes choose the steps, and every launch that was kept is read."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hypothesis import HealthCheck, settings
from hypothesis.stateful import get_state_machine_test

from fuzz.appending import Appending
from fuzz.mutations import smaller_bytes

INSTRUMENTED = ("bench.records.store", "bench.records.lines")
PLAIN = settings(database=None, deadline=None, suppress_health_check=list(HealthCheck), stateful_step_count=30)
smaller = smaller_bytes


def seeds() -> Iterator[bytes]:
    chance = random.Random(0)
    for size in (64, 256, 1024):
        yield chance.randbytes(size)


def check(content: bytes) -> None:
    steps = get_state_machine_test(Appending, settings=PLAIN)
    steps.hypothesis.fuzz_one_input(content)  # type: ignore[attr-defined]


def changed(content: bytes, chance: random.Random, most_bytes: int) -> bytes:
    return b""  # as bytes change, so do the steps
