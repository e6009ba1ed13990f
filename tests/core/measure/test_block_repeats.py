"""A block of real workers that lost time to other programs: its passes are run once more."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from bench.measure import block
from bench.measure.block import Method, Repeats, run_block
from bench.measure.comparison import CONTROL, REFERENCE
from bench.measure.lost_time import Lost
from support.blocks import METHOD, PASSES, Order, failures, num_passes, roles

REPEATING = dataclasses.replace(METHOD, max_lost_share=Method.max_lost_share)


class Losing:
    """Stands for the watch over lost time: in each part the worst-off worker loses the next of these shares."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *shares: float | None) -> None:
        left = list(shares)

        class Watch:
            def __init__(self, pids: Any) -> None:
                self.pids = list(pids)

            def lost(self) -> Lost:
                share = left.pop(0)
                delays = dict.fromkeys(self.pids, None if share is None else 0.0)
                delays[max(self.pids)] = share
                return Lost(steal_share=None if share is None else 0.001, run_delay_shares=delays)

        monkeypatch.setattr(block, "Watch", lambda pids: Watch(pids))
        self.left = left


def test_passes_in_which_a_worker_lost_time_are_repeated(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    order = Order(monkeypatch)
    Losing(monkeypatch, 0.06, 0.02)
    result = run_block(make("raw"), [make("a")], REPEATING)
    assert len(order.passes(num_workers=3)) == 1 + 2 * PASSES  # one warm-up
    assert len({pid for _, pid in order.requests}) == 3
    assert [(s.key, launch.role) for s, launch in result.superseded] == roles(result)
    counted, superseded = ([launch for _, launch in part] for part in (result.launches, result.superseded))
    assert {launch.superseded for launch in counted} == {False}
    assert {launch.superseded for launch in superseded} == {True}
    assert max(launch.run_delay_share or 0 for launch in counted) == 0.02
    assert max(launch.run_delay_share or 0 for launch in superseded) == 0.06
    assert {launch.steal_share for launch in counted} == {0.001}
    assert len({launch.block for launch in counted}) == len({launch.block for launch in superseded}) == 1
    assert counted[0].block != superseded[0].block
    assert len({launch.launch for launch in (*counted, *superseded)}) == 6
    assert all(len(launch.steady_ns) == PASSES for launch in (*counted, *superseded))
    assert not any(one.steady_ns == two.steady_ns for one, two in zip(counted, superseded, strict=True))
    assert [len(launch.warmup_ns) for launch in counted] == [0] * 3
    assert [len(launch.warmup_ns) for launch in superseded] == [3] * 3
    (first,) = {launch.first_request for launch in (*counted, *superseded)}
    assert order.inputs[::3] == [first, *([first + number for number in range(PASSES)] * 2)], "the same requests again"


def test_repeat_that_lost_more_does_not_count(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Losing(monkeypatch, 0.06, 0.07)
    result = run_block(make("raw"), [], REPEATING)
    assert max(launch.run_delay_share or 0 for _, launch in result.launches) == 0.06
    assert max(launch.run_delay_share or 0 for _, launch in result.superseded) == 0.07


@pytest.mark.parametrize("share", [0.05, None], ids=["little was lost", "the system does not tell"])
def test_other_passes_are_not_repeated(make: Any, monkeypatch: pytest.MonkeyPatch, share: float | None) -> None:
    Losing(monkeypatch, share if share is None else share - 0.001)
    result = run_block(make("raw"), [make("a")], REPEATING)
    assert result.superseded == ()
    assert {launch.steal_share for _, launch in result.launches} == {None if share is None else 0.001}
    assert (None in {launch.run_delay_share for _, launch in result.launches}) == (share is None)


def test_time_that_is_up_allows_no_repeat(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Losing(monkeypatch, 0.06)
    times = iter([False] * 2)  # one for each worker that is opened
    result = run_block(make("raw"), [], REPEATING, out_of_time=lambda: next(times, True))
    assert result.superseded == ()
    assert num_passes(result) == [PASSES, PASSES]


def test_cell_that_fails_in_the_repeat_leaves_both(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Losing(monkeypatch, 0.06, 0.02)
    result = run_block(make("raw"), [make("bad", fail_at=2 + 3 * (PASSES + 2))], REPEATING)
    assert failures(result) == [("bad", "measure", "error")]
    assert roles(result) == [("raw", REFERENCE), ("raw", CONTROL)]
    assert [subject.key for subject, _ in result.superseded] == ["raw", "raw"]


def test_repeats_are_worthwhile_until_three_in_a_row_are_in_vain() -> None:
    repeats, told = Repeats(), []
    for helped in (False, False, True, False, False, False):
        told.append(repeats.are_worthwhile)
        repeats.note(helped=helped)
    assert told == [True] * 6
    assert not repeats.are_worthwhile


def test_no_more_repeats_after_three_in_vain(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    repeats = Repeats()
    losing = Losing(monkeypatch, 0.06, 0.01, 0.06, 0.07, 0.06)
    repeated = []
    for num_before in (2, 2, 0):  # repeats in vain of other blocks; that of the first block here helps
        for _ in range(num_before):
            repeats.note(helped=False)
        repeated.append(bool(run_block(make("raw"), [], REPEATING, repeats=repeats).superseded))
    assert repeated == [True, True, False]
    assert losing.left == []


def test_time_that_workers_lose_is_read_from_the_system(make: Any) -> None:
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("this kernel keeps no schedstat")
    for _, launch in run_block(make("raw", run_s=0.001), [], METHOD).launches:
        assert launch.run_delay_share is not None
        assert 0 <= launch.run_delay_share < 1
        assert launch.steal_share is not None
        assert 0 <= launch.steal_share < 1
