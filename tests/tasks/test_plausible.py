"""Outputs on made-up inputs that cannot show that a deployment is wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bench.tasks.plausible import doubts

FIRST, SECOND = ({"x": np.random.default_rng(seed).normal(size=(1, 8)).astype(np.float32)} for seed in (0, 1))


def told(function: Callable[[np.ndarray], np.ndarray]) -> tuple[str, ...]:
    return doubts(lambda feeds: {"y": function(feeds["x"])}, FIRST, SECOND)


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (np.zeros_like, "is the same for different made-up inputs"),
        (lambda x: np.argmax(1000 + 0 * x, axis=-1), "is the same for different made-up inputs"),
        (lambda x: (x > 0).astype(np.float32), "is 0 or 1 in every element for made-up inputs"),
        (lambda x: x / 0.0, "is not finite for made-up inputs"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_output_that_shows_nothing_is_told(function: Callable[[np.ndarray], np.ndarray], what: str) -> None:
    (line,) = told(function)
    assert line.startswith(f"output 'y' {what}, so its fidelity says little")


def test_model_that_draws_random_numbers_is_told() -> None:
    """As a model that was exported in training, with its dropout."""
    random = np.random.default_rng(0)
    (line,) = told(lambda x: x * random.choice([0, 2], x.shape))
    assert line.startswith("output 'y' differs between two runs with the same inputs, so its fidelity says little")
    assert told(lambda x: x * (1 + 1e-6 * random.random())) == ()


def test_output_that_moves_is_not_doubted() -> None:
    assert told(lambda x: 1 / (1 + np.exp(-x))) == ()


def test_model_that_refuses_other_inputs_is_told() -> None:
    def run(x: np.ndarray) -> np.ndarray:
        if x is SECOND["x"]:
            raise IndexError("indices out of range")
        return x

    (line,) = told(run)
    assert line.startswith("it runs with some made-up inputs and not with others (IndexError: indices out of range)")
