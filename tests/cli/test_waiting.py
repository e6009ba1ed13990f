"""A line for whoever waits: none for a short wait, one with the time for a long one."""

from __future__ import annotations

import time

import pytest

from bench.cli import options, waiting


def test_a_long_wait_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting.said("comparing 3 cells", options.say, first_s=0.01):
        time.sleep(0.3)
    assert capsys.readouterr().err == "bench: comparing 3 cells, for 0 s so far\n"


def test_a_short_wait_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting.said("comparing 3 cells", options.say):
        pass
    assert capsys.readouterr().err == ""


def test_the_first_line_comes_within_three_seconds() -> None:
    assert waiting.FIRST_S <= 3
