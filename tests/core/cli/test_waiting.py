"""A line for whoever waits: none for a short wait, lines with the time for a long one."""

from __future__ import annotations

import threading

from bench.cli import waiting


def lines_of(seconds: float) -> list[str]:
    """The lines for something that takes so many seconds, by a clock that goes on while it is waited alone."""
    now, lines = 100.0, list[str]()

    def wait(wait_s: float) -> bool:
        nonlocal now
        now += wait_s
        return now >= 100 + seconds

    waiting.report("comparing 3 cells", lines.append, wait, clock=lambda: now)
    return lines


def test_a_long_wait_has_a_line_after_three_seconds_and_every_half_minute() -> None:
    assert lines_of(64) == [f"comparing 3 cells, for {seconds} s so far" for seconds in (3, 33, 63)]


def test_a_short_wait_has_none() -> None:
    assert lines_of(2.9) == []
    lines: list[str] = []
    with waiting.reporting("comparing 3 cells", lines.append, first_s=60):
        pass
    assert lines == []


def test_the_lines_come_while_the_statements_run_and_end_with_them() -> None:
    come = threading.Event()
    before = {*threading.enumerate()}
    with waiting.reporting("comparing 3 cells", lambda line: come.set(), first_s=0.001):
        assert come.wait(30)
    assert {*threading.enumerate()} <= before
