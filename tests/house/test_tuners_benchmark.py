"""`benchmarks/beside_tuners.py`: the losses that it tells and judges, in the unit of the task."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.measure.stats import Estimate
from bench.records import folder
from support.features import needs

FOUND, TUNED = "t/torch/a/raw/b/cpu/b1t1", "t/torch/a/tuned-x/b/cpu/b1t1"
HELD_OUT = [path.replace("t/", "t~confirming/", 1) for path in (FOUND, TUNED)]


@pytest.mark.parametrize(
    ("unit", "high", "is_better", "said"),
    [
        ("dB", (0.046, 0.12), True, "the search loses 0.004 dB (at most 0.046 dB); x loses 0.004 dB (at most 0.12 dB)"),
        ("dB", (0.12, 0.046), False, "the search loses 0.004 dB (at most 0.12 dB); x loses 0.004 dB"),
        ("dB", (0.046, 0.046), False, "(at most 0.046 dB); x loses 0.004 dB (at most 0.046 dB)"),
        ("share", (0.0046, 0.046), True, "the search loses 0.4 % (at most 0.46 %); x loses 0.4 % (at most 4.6 %)"),
        ("share", (0.046, 0.046), False, "(at most 4.6 %); x loses 0.4 % (at most 4.6 %)"),
    ],
)
def test_losses_are_told_and_judged_in_the_unit_of_the_task(
    scripts: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    unit: str,
    high: tuple[float, float],
    is_better: bool,
    said: str,
) -> None:
    """The search is slower, so it is better only where it keeps the metric and the tuner does not."""
    rows = [
        SimpleNamespace(cell=path, metric_loss=0.004, metric_loss_high=most, metric_loss_unit=unit)
        for path, most in zip(HELD_OUT, high, strict=True)
    ]
    ratio = Estimate(value=1.2, low=1.1, high=1.3)
    stored = SimpleNamespace(
        rows=rows,
        records=dict.fromkeys(HELD_OUT),
        measurements=SimpleNamespace(between=lambda *_: SimpleNamespace(ratio=ratio)),
    )
    monkeypatch.setattr(folder, "read", lambda _: stored)
    told = {"evaluations": 3.0, "seconds": 1.0}
    found = scripts("beside_tuners")._is_better(Path(), "t", "x", [FOUND, TUNED], HELD_OUT, told)
    assert found is is_better
    assert said in capsys.readouterr().out


@needs("search")
def test_a_search_for_targets_allows_a_loss_in_each_unit(scripts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script = scripts("search_targets")
    typed: list[tuple[str, ...]] = []

    def bench(*arguments: str) -> str:
        typed.append(arguments)
        return ""

    monkeypatch.setattr(script, "bench", bench)
    monkeypatch.setattr(script.folder, "read", lambda _: None)
    with pytest.raises(SystemExit):
        list(script.reached(script.TARGETS[0], Path("r"), "1m"))
    assert typed[0][typed[0].index("--max-metric-drop") + 1] == "1%,0.1dB"
