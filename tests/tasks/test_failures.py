"""Errors of other packages as errors about the user's model: short, and with all that fixes them."""

from __future__ import annotations

import pytest

from bench.api.errors import ArtifactError, InputError
from bench.api.messages import LONGEST
from bench.tasks.failures import explained, one_line, refused


def test_advice_survives_a_long_error() -> None:
    with pytest.raises(InputError) as raised, refused("it does not run", advice="; write a Python file"):
        raise ValueError("mismatch\n" * 1000)

    assert len(str(raised.value)) == LONGEST
    assert str(raised.value).startswith("it does not run: ValueError: mismatch mismatch ")
    assert str(raised.value).endswith(" mismatch; write a Python file")


@pytest.mark.parametrize("quoted", [400, 10_000])
@pytest.mark.parametrize("longest", [60, 61, 200])
def test_a_long_error_keeps_both_its_ends(longest: int, quoted: int) -> None:
    """Keras quotes the configuration of the layer, and OpenVINO the call that failed, before what went wrong."""
    message = f"Error when deserializing class 'Dense' {'x' * quoted} Exception encountered: no such argument 'gain'"
    text = one_line(TypeError(message), longest)
    assert len(text) == len("TypeError: ") + longest
    assert text.startswith("TypeError: Error when deserializing")
    assert text.endswith(" no such argument 'gain'")
    assert " ... " in text


def test_an_error_that_fits_is_whole() -> None:
    with pytest.raises(InputError) as raised, refused("PyTorch cannot load it"):
        raise ValueError("x" * 250)

    assert str(raised.value) == f"PyTorch cannot load it: ValueError: {'x' * 250}"


def test_an_error_that_explains_itself_passes_unchanged() -> None:
    with pytest.raises(InputError, match=r"^it has no outputs$"), refused("it does not run"):
        raise InputError("it has no outputs")


@pytest.mark.parametrize("error", [InputError("no outputs"), ArtifactError("no file"), MemoryError("much")])
def test_the_last_line_of_defence_lets_errors_pass_that_explain_themselves(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, explained("it cannot be opened"):
        raise error
    assert raised.value is error


@pytest.mark.parametrize("error", [KeyError(99), RecursionError("deep"), UnicodeDecodeError("utf-8", b"x", 0, 1, "no")])
def test_the_last_line_of_defence_names_the_step_that_failed(error: Exception) -> None:
    with (
        pytest.raises(InputError, match=rf"^it cannot be opened: {type(error).__name__}: "),
        explained("it cannot be opened"),
    ):
        raise error


def test_the_want_of_memory_passes() -> None:
    with pytest.raises(MemoryError), refused("it does not run"):
        raise MemoryError
