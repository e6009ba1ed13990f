"""What a child process tells of an error: its kind, and both ends of its text, for the culprit may be at either."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from bench.api.errors import ArtifactError, InputError, RefusedError
from bench.api.messages import CUT, LONGEST, shortened
from bench.measure import worker

BEFORE, QUOTED, CULPRIT = "Error when deserializing class 'Dense'", "x " * 400, "no such argument 'gain'"


def told(error: BaseException) -> dict[str, Any]:
    """The answer of a worker whose operation raises an error."""

    def fails(*_: object) -> None:
        raise error

    child: Any = SimpleNamespace(do=fails)
    answer: dict[str, Any] = json.loads(
        worker.answer(child, json.dumps({"id": "1", "operation": "", "arguments": {}, "timeout_s": 60}))
    )
    return answer


@pytest.mark.parametrize(
    ("kind", "begins", "named"),
    [
        (TypeError, "TypeError: Error when deserializing", "error"),
        (RuntimeError, "RuntimeError: Error when deserializing", "error"),
        (ArtifactError, "Error when deserializing", "error"),
        (InputError, "Error when deserializing", "error"),
        (RefusedError, "Error when deserializing", "refused"),
    ],
)
@pytest.mark.parametrize("quoted", [QUOTED, QUOTED * 20])
def test_a_long_error_keeps_its_kind_and_both_its_ends(
    kind: type[Exception], begins: str, named: str, quoted: str
) -> None:
    answer = told(kind(f"{BEFORE} {quoted}{CULPRIT}"))
    text = answer["error"]
    assert text.startswith(begins)
    assert text.endswith(CULPRIT)
    assert len(text.removeprefix(f"{kind.__name__}: ")) == LONGEST
    assert text.count(CUT.strip()) == 1
    assert answer["kind"] == named


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("x" * LONGEST), f"ValueError: {'x' * LONGEST}"),
        (ValueError("\x1b[31mred\x1b[0m\n  and more"), "ValueError: red and more"),
        (AssertionError(), "AssertionError"),
        (KeyError("weights"), "KeyError: 'weights'"),
        (ArtifactError("no file was written"), "no file was written"),
    ],
)
def test_a_short_error_is_whole(error: Exception, text: str) -> None:
    assert told(error)["error"] == text


@pytest.mark.parametrize("longest", [20, 21, 300])
@pytest.mark.parametrize("more", [0, 1, 1000])
def test_a_text_has_no_more_characters_than_allowed(longest: int, more: int) -> None:
    text = "a" + "b" * (longest + more - 2) + "c"
    cut = shortened(text, longest)
    assert len(cut) == longest
    assert (cut[0], cut[-1], CUT in cut) == ("a", "c", more > 0)
