"""Errors of other packages as errors about the user's model: short, and with all that fixes them."""

from __future__ import annotations

import pytest

from bench.api.errors import InputError
from bench.tasks.failures import LONGEST, refused


def test_advice_survives_a_long_error() -> None:
    with pytest.raises(InputError) as raised, refused("it does not run", advice="; write a Python file"):
        raise ValueError("mismatch\n" * 1000)

    assert len(str(raised.value)) == LONGEST
    assert str(raised.value).startswith("it does not run: ValueError: mismatch mismatch ")
    assert str(raised.value).endswith("...; write a Python file")


def test_an_error_that_fits_is_whole() -> None:
    with pytest.raises(InputError) as raised, refused("PyTorch cannot load it"):
        raise ValueError("x" * 250)

    assert str(raised.value) == f"PyTorch cannot load it: ValueError: {'x' * 250}"


def test_an_error_that_explains_itself_passes_unchanged() -> None:
    with pytest.raises(InputError, match=r"^it has no outputs$"), refused("it does not run"):
        raise InputError("it has no outputs")
