"""How many blocks are measured, and which of them count."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from bench.features.blame.cuts import Part
from bench.features.blame.parts import WHOLE, Stopwatch, Times, most_parts


class Blocks(Stopwatch):
    """Blocks of which each lost some share of its time; the latency is the number of the block."""

    def __init__(self, *lost: float) -> None:
        self._lost, self._number = list(lost), 0

    def _block(self, parts: Sequence[Part]) -> tuple[float, Times]:
        self._number += 1
        return self._lost[self._number - 1], {WHOLE: (float(self._number), 1.0)}


def numbers(blocks: Sequence[Times]) -> list[float]:
    return [times[WHOLE][0] for times in blocks]


def test_blocks_that_an_interval_needs_are_measured_after_the_time_as_well() -> None:
    blocks = Blocks(*[0.0] * 6).measure((), num_blocks=6, ends_s=time.monotonic() - 1)

    assert numbers(blocks) == [1, 2, 3]


@pytest.mark.parametrize(
    ("lost", "counted"),
    [
        ((0.0, 0.5, 0.0, 0.0), [1, 3, 4]),
        ((0.0, 0.5, 0.0), [1, 2, 3]),  # two have no interval
        ((0.0, 0.5, 0.5, 0.5, 0.0, 0.5, 0.0), [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_blocks_that_lost_much_time_are_left_out_where_enough_are_left(
    lost: tuple[float, ...], counted: list[float]
) -> None:
    blocks = Blocks(*lost).measure((), num_blocks=len(lost), ends_s=time.monotonic() + 60)

    assert numbers(blocks) == counted


@pytest.mark.parametrize(
    ("free_gib", "peak_gib", "parts"),
    [(20, 0.1, 58), (20, 1, 4), (20, 2, 1), (10, 3, 0), (1, 4, 0)],  # 60 % of it, three of the workers for wholes
)
def test_workers_of_a_block_fit_the_free_memory(free_gib: float, peak_gib: float, parts: int) -> None:
    number = most_parts(int(free_gib * 2**30), int(peak_gib * 2**30))

    assert number == parts
    assert number == 0 or (2 * number + 3) * peak_gib <= 0.6 * free_gib
