"""What a runtime's `open` and a session's `run` may return, and the sentence for anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Runtime, Session
from bench.api.errors import PluginError
from bench.pipeline import operations, output_checks

ARRAY = np.ones((1, 2), np.float32)
FORM = "give a list of NumPy arrays, one for each output"


class Tensor:
    pass


class Returning(Session):
    def __init__(self, outputs: Any) -> None:
        self._outputs = outputs

    def run(self, feeds: Any) -> Any:
        return self._outputs


class Opening(Runtime):
    formats = ("null",)

    def open(self, artifact: Path, **_: Any) -> Any:
        return None if artifact.name == "none" else Returning([ARRAY])


@pytest.mark.parametrize(
    ("outputs", "found"),
    [
        ({"y": ARRAY}, "a dict"),
        (Tensor(), "a Tensor"),
        (ARRAY, "a ndarray"),
        (None, "None"),
        ([ARRAY, Tensor()], "a list with a Tensor"),
        ((1.0,), "a tuple with a float"),
    ],
)
def test_outputs_of_another_form_are_refused_at_the_first_inference(outputs: Any, found: str) -> None:
    call = operations.judged_call(Returning(outputs))
    with pytest.raises(PluginError) as raised:
        call({})
    assert str(raised.value) == f"test_returned.py: run() returned {found}; {FORM}"


@pytest.mark.parametrize("outputs", [[ARRAY], (ARRAY, ARRAY), [np.float32(1)]])
def test_arrays_are_handed_on_as_they_are(outputs: Any) -> None:
    assert operations.judged_call(Returning(outputs))({}) is outputs


def test_what_is_no_session_is_refused() -> None:
    runtime = Opening(name="mine", path=Path("mine.py"))
    with pytest.raises(PluginError) as raised:
        output_checks.opened(runtime, Path("none"), task=None)
    said = "open() returned None; give an instance of a subclass of bench.api.Session"
    assert str(raised.value) == f"test_returned.py: {said}"
    assert isinstance(output_checks.opened(runtime, Path("some"), task=None), Returning)
