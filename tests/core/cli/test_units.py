"""Limits of a loss of the metric as people write them, by unit."""

from types import SimpleNamespace
from typing import Any

import pytest

from bench.api import loss_units
from bench.api.errors import InputError
from bench.api.loss_units import DB, SHARE, AllowedLoss
from bench.cli import options, units


@pytest.mark.parametrize(
    ("text", "share", "db"),
    [
        ("1%", 0.01, 0.1),
        ("0.02", 0.02, 0.1),
        ("0.3dB", 0.01, 0.3),
        ("0.3 db", 0.01, 0.3),
        ("2%,0.05dB", 0.02, 0.05),
        ("0.05dB, 2%", 0.02, 0.05),
        ("0", 0.0, 0.0),
        ("0%", 0.0, 0.0),
        ("0dB", 0.0, 0.0),
        ("0%,0.1dB", 0.0, 0.1),
        (options.MAX_METRIC_DROP, 0.01, 0.1),
    ],
)
def test_limits_have_units_and_what_is_not_named_its_default(text: str, share: float, db: float) -> None:
    assert units.allowed_loss(text) == AllowedLoss(share=share, db=db)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1%,2%", "two limits in one unit: '1%,2%'; write one for each, as 1%,0.1dB"),
        ("0.1dB,0.2dB", "two limits in one unit"),
        ("dB", "not a number of decibels: 'dB'; write 0.1dB"),
        ("-1dB", "not a number of decibels"),
        ("0.1mdB", "not a number of decibels: '0.1mdB'; write 0.1dB"),
        ("5xdB", "not a number of decibels: '5xdB'"),
        ("nandB", "not a number of decibels"),
        ("0.1dB,", "not a share: ''"),
        ("150%", "not a share between 0 and 100 %"),
        ("1bit", "not a share: '1bit'"),
    ],
)
def test_what_is_no_limit_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        units.allowed_loss(text)
    assert said in str(refused.value)


def test_a_loss_is_told_in_its_unit() -> None:
    assert loss_units.text(0.0089, SHARE) == "0.89 %"
    assert loss_units.text(0.0457, DB) == "0.046 dB"
    assert AllowedLoss(share=0.005).option(SHARE) == "0.5%"
    assert AllowedLoss().option(SHARE, DB) == options.MAX_METRIC_DROP == "1%,0.1dB"
    assert str(AllowedLoss()) == "1 % or 0.1 dB"
    assert (AllowedLoss().of(None), AllowedLoss().of(SHARE), AllowedLoss().of(DB)) == (0.01, 0.01, 0.1)


def test_a_task_whose_unit_no_limit_names_is_told_of() -> None:
    rows: Any = [
        SimpleNamespace(task="sharp", metric_loss_unit=DB),
        SimpleNamespace(task="sharp", metric_loss_unit=DB),
        SimpleNamespace(task="words", metric_loss_unit=SHARE),
        SimpleNamespace(task="failed", metric_loss_unit=None),
    ]
    assert [*options.unnamed_limits("2%", rows)] == [
        "sharp loses dB, of which --max-metric-drop 2% names no limit: 0.1 dB, the default, is allowed (2%,0.1dB says "
        "both)"
    ]
    (said,) = options.unnamed_limits("0.2dB", rows)
    assert said.startswith("words loses a share of its metric, of which --max-metric-drop 0.2dB names no limit: 1 %, ")
    for silent in (options.MAX_METRIC_DROP, options.NO_LIMIT, "0", "3%,0.2dB"):
        assert [*options.unnamed_limits(silent, rows)] == []
