"""The texts of `bench doctor` and `bench check`, from made-up values."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bench.decisions.check import Outcome
from bench.features.doctor import render as doctor
from bench.features.doctor.examination import Examination, RuntimeState
from bench.measure.stats import Estimate
from bench.records.lines import Quality
from bench.report import check

EXAMINED = Examination(
    name="machine",
    facts={"processor": "a processor", "num_cores": 2, "memory_gib": 24, "system": "Linux"},
    state={"load_1m": 0.5, "available_bytes": 2**30, "governor": None, "temperature_c": None},
    protection={"memory_method": "kernel", "high_priority": False, "memory_limited": True, "no_network": True},
    runtimes=(
        RuntimeState(name="null", reason=None, versions={"python": "3.11"}),
        RuntimeState(name="other", reason="it is not installed", versions={"other": "1.0", "more": "2.0"}),
    ),
    noise=Estimate(value=1.001, low=0.995, high=1.007),
    spread=1.25,
)
OUTCOME = Outcome(
    verdict="fine",
    ratio=Estimate(value=1.003, low=0.991, high=1.015),
    control=Estimate(value=1.0, low=0.99, high=1.01),
    num_launches=3,
    new_ns=(),
    quality=Quality(fidelity="exact", max_abs_error=0.0, metric_loss=0.0),
    max_metric_loss=0.01,
)


def test_a_quiet_machine() -> None:
    lines = doctor.render(EXAMINED).splitlines()

    assert lines[:4] == [
        "machine     a processor, 2 cores, 24 GiB (Linux)",
        "results in  results/machine",
        "load        0.5 over the last minute, 1.0 GiB free",
        "",
    ]
    assert lines[5] == "priority    not permitted (CAP_SYS_NICE): a busy machine will show"
    assert lines[9:11] == [
        "null        usable; needs nothing",
        "other       not usable: it is not installed; other 1.0, more 2.0",
    ]
    assert lines[12].endswith("differs by +0.10% [-0.50%, +0.70%]: quiet")
    assert lines[13].startswith("drift       bursts of it one after the other differ by up to 1.25x")


def test_a_noisy_and_hot_machine() -> None:
    state = {**EXAMINED.state, "governor": "powersave", "temperature_c": 71.6}
    noise = Estimate(value=1.0, low=0.9, high=1.1)
    text = doctor.render(dataclasses.replace(EXAMINED, state=state, noise=noise))

    assert "clock       governor 'powersave': the clock may vary" in text
    assert "heat        72 degrees Celsius at the hottest sensor" in text
    assert ": noisy: expect more launches" in text


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({}, "after 3 launches: fine; outputs exact"),
        ({"num_launches": 1, "verdict": "undecided"}, "after 1 launch: undecided; outputs exact"),
        ({"quality": Quality(fidelity="broken", reason="NaN"), "fault": "NaN"}, "fine; outputs broken (NaN)"),
        (
            {"quality": Quality(fidelity="drifted", metric_loss=0.02), "fault": "too much of accuracy is lost"},
            "outputs drifted, 2 % worse on the samples: too much, a loss of 1 % is allowed",
        ),
        (
            {"quality": Quality(fidelity="drifted", metric_loss=-0.01)},
            "drifted, 1 % better on the samples: a loss of 1 % is allowed",
        ),
        (
            {"quality": Quality(fidelity="drifted", metric_loss=0.0), "fault": "output 'boxes' differs"},
            "0 % worse on the samples: a loss of 1 % is allowed; wrong: output 'boxes' differs",
        ),
        ({"quality": Quality(fidelity="drifted"), "fault": "no number"}, "outputs drifted; wrong: no number"),
        (
            {"quality": Quality(fidelity="close", metric_loss=1e-9)},
            "close, 0 % worse on the samples: a loss of 1 % is allowed",
        ),
    ],
)
def test_the_line_of_a_check(changes: dict[str, Any], end: str) -> None:
    line = check.line(dataclasses.replace(OUTCOME, **changes))

    assert line.startswith("1.003 [0.991, 1.015] times the pinned one's latency after ")
    assert line.endswith(end)
