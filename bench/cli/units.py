"""Durations, sizes, shares and losses of a metric as people write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bench.api.errors import InputError
from bench.api.loss_units import DB, SHARE, AllowedLoss, Unit

if TYPE_CHECKING:
    from bench.measure.limits import Limits

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_DECIBELS = re.compile(r"(\d+(?:\.\d+)?)\s*dB", re.IGNORECASE)
_SECONDS = {"": 1, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
BYTES = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def seconds(text: str) -> float:
    """`90s`, `10m`, `1.5h`, `5ms` or `250us`; a bare number is seconds.

    Raises:
        InputError: anything else.
    """
    amount = _AMOUNT.fullmatch(text.strip())
    if amount is None or amount[2] not in _SECONDS or float(amount[1]) <= 0:
        raise InputError(f"not a duration: {text!r}; write 5ms, 90s, 10m or 1.5h")
    return float(amount[1]) * _SECONDS[amount[2]]


def seconds_of(text: str | None) -> float | None:
    """The seconds of an option that may be left out; None where it is.

    Raises:
        InputError: see `seconds`.
    """
    return seconds(text) if text else None


def limits(timeout: str | None, memory: str | None) -> Limits:
    """The limits of workers, from the values of the options `--timeout` and `--memory`.

    Raises:
        InputError: a value is not a duration or a size.
    """
    from bench.measure.limits import Limits

    return Limits.of(step_s=seconds_of(timeout), memory_bytes=size_bytes(memory) if memory else None)


def size_bytes(text: str) -> int:
    """`512MiB`, `4GiB`, `20MB`, ...

    Raises:
        InputError: anything else.
    """
    amount = _AMOUNT.fullmatch(text.strip())
    if amount is None or amount[2] not in BYTES:
        raise InputError(f"not a size: {text!r}; write 500kB, 10MB or 4GiB")
    return int(float(amount[1]) * BYTES[amount[2]])


def share(text: str, *, zero: bool = False) -> float:
    """`2%` or `0.02`.

    Args:
        text: a number, which ends with `%` where it is in per cent.
        zero: whether 0 is allowed.

    Raises:
        InputError: anything else, or a share that is not between 0 and 100 %.
    """
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError as error:
        raise InputError(f"not a share: {text!r}; write 2% or 0.02") from error
    if not (0 < value < 1 or (zero and value == 0)):
        raise InputError(f"not a share between 0 and 100 %: {text!r}")
    return value


def losses(text: str) -> dict[Unit, float]:
    """Limits of a loss of the metric, by unit: `1%` or `0.01` of a share, `0.1dB`, or both, as `1%,0.1dB`.

    Raises:
        InputError: anything else, or two limits of one unit.
    """
    by_unit: dict[Unit, float] = {}
    for part in text.split(","):
        number = part.strip()
        unit: Unit = DB if number.lower().endswith("db") else SHARE
        if unit in by_unit:
            raise InputError(f"two limits in one unit: {text!r}; write one for each, as 1%,0.1dB")
        by_unit[unit] = _decibels(number) if unit == DB else share(number, zero=True)
    return by_unit


def allowed_loss(text: str) -> AllowedLoss:
    """The limits of a loss of the metric, see `losses`.

    A unit that is not named has its default limit. Zero alone is no loss in any unit.

    Raises:
        InputError: see `losses`.
    """
    by_unit = losses(text)
    if [*by_unit.values()] == [0.0]:
        return AllowedLoss(share=0.0, db=0.0)
    default = AllowedLoss()
    return AllowedLoss(share=by_unit.get(SHARE, default.share), db=by_unit.get(DB, default.db))


def _decibels(text: str) -> float:
    decibels = _DECIBELS.fullmatch(text)
    if decibels is None:
        raise InputError(f"not a number of decibels: {text!r}; write 0.1dB")
    return float(decibels[1])
