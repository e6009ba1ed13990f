"""The search for slow parts, with a stopwatch that makes up its times."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from bench.features.blame import blaming
from bench.features.blame.blaming import Search
from bench.features.blame.cuts import Part
from bench.features.blame.outcome import Outcome
from bench.features.blame.parts import WHOLE, Times

NUM_ATOMS = 60
ATOM_NS = 1e5


@dataclasses.dataclass(kw_only=True)
class FakeStopwatch:
    """Times of atoms under both sides, with noise.

    Attributes:
        slower: by atom, by how many nanoseconds it is slower under the second side.
        between: by atom, nanoseconds that the whole takes more under the second side before that atom; no part has
            them in which the atom is the first.
        noise: standard deviation of the logarithm of each time.
        failing: keys of parts that cannot be run.
        room: number of parts of a block for which there is memory.
        calls: the parts of each call with their blocks.
    """

    slower: Mapping[int, float]
    between: Mapping[int, float] = dataclasses.field(default_factory=dict)
    noise: float = 0.002
    seed: int = 0
    failing: Callable[[Part], bool] = lambda part: False
    room: int = 100
    calls: list[tuple[list[Part], list[Times]]] = dataclasses.field(default_factory=list)
    failures: dict[str, str] = dataclasses.field(default_factory=dict)
    measured: list[Part] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self._generator = np.random.default_rng(self.seed)

    def measure(self, parts: Sequence[Part], *, num_blocks: int, ends_s: float) -> list[Times]:
        self.measured += parts
        self.failures |= {part.key: "it crashes" for part in parts if self.failing(part)}
        blocks = [self._block(parts) for _ in range(num_blocks)]
        self.calls.append(([*parts], blocks))
        return blocks

    def most_parts(self) -> int:
        return self.room

    def _block(self, parts: Sequence[Part]) -> Times:
        state = np.exp(self._generator.normal(0, 0.05))  # the machine's speed, which all of a block have in common
        every = {part.key: part for part in parts if not self.failing(part)}
        return {
            key: tuple(state * self._noisy(value) for value in self._true(part))
            for key, part in {WHOLE: Part(start=0, end=NUM_ATOMS), **every}.items()
        }  # type: ignore[return-value]

    def _noisy(self, value: float) -> float:
        return float(value * np.exp(self._generator.normal(0, self.noise)))

    def _true(self, part: Part) -> tuple[float, float]:
        before = ATOM_NS * part.num_atoms
        more = sum(value for atom, value in self.slower.items() if part.start <= atom < part.end)
        return before, before + more + sum(v for atom, v in self.between.items() if part.start < atom < part.end)


def search(stopwatch: FakeStopwatch, profile: Mapping[int, float] | None, *, budget_s: float = 1e6) -> Outcome:
    """What the search finds; `profile` has by how much each atom is slower by the profilers."""
    times = None if profile is None else [(ATOM_NS, ATOM_NS + profile.get(atom, 0.0)) for atom in range(NUM_ATOMS)]
    whole = Part(start=0, end=NUM_ATOMS)
    return Search(stopwatch, whole, times, begin_s=time.monotonic(), budget_s=budget_s).run()


def atoms(outcome: Outcome) -> list[int]:
    return [line.core.start for line in outcome.blamed if line.core.num_atoms == 1]


SLOW = {17: 0.08 * NUM_ATOMS * ATOM_NS}


@pytest.mark.parametrize("profile", [SLOW, None, {}, {3: 9e5, 40: 5e5}], ids=["right", "none", "blind", "wrong"])
def test_one_slow_atom_is_named_whatever_the_profile_says(profile: Mapping[int, float] | None) -> None:
    outcome = search(FakeStopwatch(slower=SLOW), profile)

    assert outcome.is_different
    assert atoms(outcome) == [17]
    assert outcome.blamed[0].share.low < 1 < outcome.blamed[0].share.high
    assert outcome.blamed[0].difference.value == pytest.approx(0.08, abs=0.01)
    assert outcome.blamed[0].ratio.value == pytest.approx(1 + 0.08 * NUM_ATOMS, rel=0.05)
    assert outcome.remainder is not None
    assert outcome.remainder.low < 0 < outcome.remainder.high


def test_two_slow_atoms_are_named_in_the_order_of_what_they_explain() -> None:
    whole = NUM_ATOMS * ATOM_NS

    outcome = search(FakeStopwatch(slower={50: 0.03 * whole, 9: 0.06 * whole}), None)

    assert atoms(outcome) == [9, 50]
    assert [round(line.share.value, 1) for line in outcome.blamed] == [0.7, 0.3]


def test_a_faster_atom_is_named_where_the_second_side_is_faster() -> None:
    outcome = search(FakeStopwatch(slower={30: -0.9 * ATOM_NS}, noise=0.0005), {30: -0.9 * ATOM_NS})

    assert outcome.ratio.high < 1
    assert atoms(outcome) == [30]
    assert outcome.blamed[0].share.value == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_blamed_where_nothing_differs(seed: int) -> None:
    outcome = search(FakeStopwatch(slower={}, noise=0.004, seed=seed), {5: 3e5})

    assert not outcome.is_different
    assert outcome.blamed == ()


def test_what_lies_between_parts_is_measured_with_neighbours() -> None:
    """Half of the slowdown comes before the next atom, as a change of layout does: the suspect alone has the rest."""
    half = 0.05 * NUM_ATOMS * ATOM_NS

    outcome = search(FakeStopwatch(slower={20: half}, between={21: half}), {20: half})

    (line,) = outcome.blamed
    assert line.core == Part(start=20, end=21)
    assert line.part == Part(start=19, end=22)
    assert line.share.value == pytest.approx(1, abs=0.1)
    assert line.core_ratio.value == pytest.approx(1 + half / ATOM_NS, rel=0.05)


def test_a_tenth_that_is_clearly_left_over_is_measured_with_neighbours() -> None:
    whole = 0.4 * NUM_ATOMS * ATOM_NS

    outcome = search(FakeStopwatch(slower={20: 0.9 * whole}, between={21: 0.1 * whole}), {20: whole})

    (line,) = outcome.blamed
    assert (line.core, line.part) == (Part(start=20, end=21), Part(start=19, end=22))
    assert line.share.low < 1 < line.share.high


def test_what_may_be_left_over_by_chance_is_measured_in_more_blocks() -> None:
    """The difference is about as small as the noise of a block: of six blocks, anything may seem left over."""
    slower = {20: 0.02 * NUM_ATOMS * ATOM_NS}

    outcomes = [search(FakeStopwatch(slower=slower, noise=0.01, seed=seed), {20: 1e5}) for seed in range(40)]

    left = [(outcome.num_blocks, share.value) for outcome in outcomes if (share := outcome.remainder_share)]
    assert len(left) >= 10
    assert [share for num_blocks, share in left if num_blocks <= 6 and abs(share) >= 0.15] == []


def test_what_no_part_shows_is_a_line_of_its_own() -> None:
    """A cost that lies before each atom, such as of scheduling, is in no atom alone."""
    each = 0.1 * ATOM_NS

    outcome = search(FakeStopwatch(slower={8: 4 * ATOM_NS}, between=dict.fromkeys(range(NUM_ATOMS), each)), None)

    assert atoms(outcome) == [8]
    assert outcome.blamed[0].share.value < 0.5
    whole = (4 * ATOM_NS + 59 * each) / (NUM_ATOMS * ATOM_NS)
    assert outcome.ratio.value == pytest.approx(1 + whole, rel=0.01)


def test_a_part_that_cannot_be_run_is_split() -> None:
    stopwatch = FakeStopwatch(slower=SLOW, failing=lambda part: part.num_atoms > 8 and part.start <= 17 < part.end)

    outcome = search(stopwatch, None)

    assert atoms(outcome) == [17]


def test_an_ended_budget_ends_the_search_with_what_is_known() -> None:
    outcome = search(FakeStopwatch(slower=SLOW), None, budget_s=0.0)

    assert outcome.is_cut
    assert [line.core.start <= 17 < line.core.end for line in outcome.blamed] == [True]


def test_parts_of_the_answer_cover_the_whole_once() -> None:
    stopwatch = FakeStopwatch(slower=SLOW)
    outcome = search(stopwatch, None)

    bounds = sorted((line.part.start, line.part.end) for line in (*outcome.blamed, *outcome.others))
    assert bounds[0][0] == 0
    assert bounds[-1][1] == NUM_ATOMS
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(bounds))


def test_where_many_explain_a_little_each_some_are_named() -> None:
    outcome = search(FakeStopwatch(slower=dict.fromkeys(range(NUM_ATOMS), 0.1 * ATOM_NS)), None)

    assert outcome.is_different
    assert 1 <= len(outcome.blamed) <= 3
    assert all(line.ratio.low > 1 for line in outcome.blamed)
    assert outcome.remainder_share is not None
    assert outcome.remainder_share.low < 0 < outcome.remainder_share.high


def test_a_suspect_that_cannot_be_run_alone_has_no_ratio_of_its_own() -> None:
    """It ran in the search and fails afterwards: what its neighbours and it take together is not its own."""
    core = Part(start=17, end=18)
    stopwatch = FakeStopwatch(slower=SLOW)
    stopwatch.failing = lambda part: part == core and stopwatch.measured.count(core) > 1

    (line,) = search(stopwatch, SLOW).blamed

    assert (line.core, line.part, line.core_ratio) == (core, Part(start=16, end=19), None)


def test_a_part_that_fails_meanwhile_leaves_nothing_over() -> None:
    """The slow atom is in the first four of six blocks: the others do not tell what the parts add up to."""
    stopwatch = FakeStopwatch(slower=SLOW)
    parts = [Part(start=0, end=17), Part(start=17, end=18), Part(start=18, end=NUM_ATOMS)]
    blocks = stopwatch.measure(parts, num_blocks=6, ends_s=0.0)
    slow = parts[1]
    cut = [*blocks[:4], *({key: times for key, times in block.items() if key != slow.key} for block in blocks[4:])]

    outcome = blaming._outcome(parts, {slow: slow}, cut, 1.0)

    assert outcome.remainder_share is not None
    assert abs(outcome.remainder_share.value) < 0.15
    assert outcome.remainder_share.low < 0 < outcome.remainder_share.high


def test_what_lies_between_two_parts_is_named_with_both() -> None:
    """Neither side of the boundary shows it alone, so what was split there is named."""
    outcome = search(FakeStopwatch(slower={}, between={21: 0.08 * NUM_ATOMS * ATOM_NS}), None)

    (line,) = outcome.blamed
    assert line.part.start < 21 < line.part.end
    assert line.part.num_atoms < NUM_ATOMS / 4
    assert line.share.value == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("room", [3, 4, 5, 7])
def test_no_block_has_more_parts_than_there_is_memory_for(room: int) -> None:
    whole = NUM_ATOMS * ATOM_NS
    stopwatch = FakeStopwatch(slower={9: 0.06 * whole, 30: 0.05 * whole, 50: 0.04 * whole}, room=room)

    outcome = search(stopwatch, {3: 9e5, 9: 9e5, 40: 5e5})

    assert max(len(parts) for parts, _ in stopwatch.calls) <= room
    assert atoms(outcome)[0] == 9


def test_where_no_part_fits_the_memory_only_the_whole_is_told() -> None:
    stopwatch = FakeStopwatch(slower=SLOW, room=2)

    outcome = search(stopwatch, SLOW)

    assert outcome.is_different
    assert outcome.ratio.value == pytest.approx(1.08, abs=0.01)
    assert outcome.blamed == ()
    assert "too little free memory" in next(iter(outcome.failures.values()))
    assert stopwatch.measured == []


def test_what_the_blocks_of_the_answer_do_not_show_is_not_blamed() -> None:
    """As where other programs slowed one side while the whole was measured: the search began, and ends without."""
    stopwatch = FakeStopwatch(slower=SLOW)
    measure = stopwatch.measure

    def passing(parts: Sequence[Part], **options: Any) -> list[Times]:
        if parts:
            stopwatch.slower = {}
        return measure(parts, **options)

    stopwatch.measure = passing  # type: ignore[method-assign]

    outcome = search(stopwatch, {17: 1e6})

    assert (outcome.is_different, outcome.blamed) == (False, ())
    assert outcome.ratio.value == pytest.approx(1.0, abs=0.01)


def test_blocks_that_chose_the_neighbours_are_not_those_of_the_answer() -> None:
    half = 0.05 * NUM_ATOMS * ATOM_NS
    stopwatch = FakeStopwatch(slower={20: half}, between={21: half})

    outcome = search(stopwatch, {20: half})

    (line,) = outcome.blamed
    last_parts, last_blocks = stopwatch.calls[-1]
    before = [(parts, blocks) for parts, blocks in stopwatch.calls[:-1] if line.part in parts]
    assert before  # it was chosen by blocks of its own
    assert line.part in last_parts
    shares = [(times[line.part.key][1] - times[line.part.key][0]) / times[WHOLE][0] for times in last_blocks]
    assert line.difference.value == pytest.approx(np.mean(shares))
    assert outcome.num_blocks == len(last_blocks)
