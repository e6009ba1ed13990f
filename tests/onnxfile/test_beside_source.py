"""Parameters of a file beside those of its source: each difference is of tensors that are named."""

from __future__ import annotations

import numpy as np
import pytest

from bench.onnxfile.weights.beside_source import differences, explanation

RNG = np.random.default_rng(5)
A, B, BIAS = (RNG.normal(0, 1, shape).astype(np.float32) for shape in ((6, 4), (4, 4), (6,)))
ZEROS = np.zeros(4, np.float32)
STACKED = np.concatenate([A, B])


@pytest.mark.parametrize(
    ("source", "file", "missing", "extra"),
    [
        ({"w": A, "b": BIAS}, {"w": A, "b": BIAS}, {}, {}),
        ({"w": A}, {"val_1": A.T}, {}, {}),
        ({"w": A}, {"w": 2 * A}, {}, {}),
        ({"w": A, "never": B}, {"w": A}, {"never": 16}, {}),
        ({"w": A, "b": ZEROS}, {"w": A}, {"b": 4}, {}),
        ({"w": A}, {"w": A, "scale": np.ones(1, np.float32)}, {}, {"scale": 1}),
        ({"both": STACKED}, {"q": A, "kv": B.T}, {}, {}),
        ({"both": STACKED}, {"q": A}, {"both": 16}, {}),
        ({"w": A, "mean": BIAS}, {"folded": A * 3}, {"w": 24, "mean": 6}, {"folded": 24}),
        ({"w": A}, {"first": A, "second": A.copy()}, {}, {"second": 24}),
        ({"w": A.astype(np.float16)}, {"w2": A.astype(np.float16).astype(np.float32)}, {}, {}),
    ],
    ids=[
        *("same", "transposed", "same name", "never read", "bias of zeros", "a scale", "stacked", "half of a stack"),
        *("folded", "stored twice", "another type"),
    ],
)
def test_differences(
    source: dict[str, np.ndarray], file: dict[str, np.ndarray], missing: dict[str, int], extra: dict[str, int]
) -> None:
    found = differences(source, file)
    if "second" in file:
        assert (found[0], sum(found[1].values())) == (missing, 24), "either of two equal tensors"
    else:
        assert found == (missing, extra)
    sizes = [sum(array.size for array in side.values()) for side in (source, file)]
    assert sizes[0] - sum(found[0].values()) + sum(found[1].values()) == sizes[1]


def test_a_sentence_names_what_differs() -> None:
    source = {"w": A, "never.weight": B, "never.bias": BIAS, "b": ZEROS}
    assert explanation(source, {"w": A, "scale": np.ones(1, np.float32)}, framework="PyTorch") == (
        "PyTorch counts 50 parameters, and the file has 25: 22 are not in the file (never.weight, never.bias); "
        "4 are not in the file, for they are all 0 (b); 1 are in the file and no parameters in PyTorch (scale)"
    )


def test_nothing_is_said_of_as_many() -> None:
    assert explanation({"w": A}, {"folded": 3 * A}, framework="PyTorch") is None
