"""Outputs beside the reference's: values that are not finite by design, and shapes that follow from the data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.api import TensorSpec, ragged
from bench.pipeline import differences, rounding
from bench.pipeline.differences import Differences
from bench.tasks.user_task import OwnTask

MASKED = np.array([[1.0, -np.inf, 2.0], [-np.inf, 4.0, 0.5]], np.float32)
BY_DESIGN = {
    "a mask of minus infinity": MASKED,
    "the same in float16": MASKED.astype(np.float16),
    "plus infinity": -MASKED,
    "0 / 0": np.where(np.isfinite(MASKED), MASKED, np.nan),
    "all three": np.array([[np.nan, np.inf, -np.inf, 4.0], [1.0, 2.0, 3.0, np.nan]]),
    "nothing finite": np.full((2, 3), -np.inf, np.float32),
}


def between(output: np.ndarray, expected: np.ndarray, rows: list[int] | None = None) -> Differences:
    return differences.between({"y": output}, {"y": expected}, rows)


@pytest.mark.parametrize("expected", BY_DESIGN.values(), ids=list(BY_DESIGN))
def test_the_same_values_agree_though_they_are_not_finite(expected: np.ndarray) -> None:
    found = between(expected.copy(), expected)
    assert (found.is_equal, found.fault, found.absolute, found.relative) == (True, None, 0.0, 0.0)
    assert rounding.shares({"y": expected.copy()}, {"y": expected}) == {"y": 0.0}


@pytest.mark.parametrize("expected", [*BY_DESIGN.values()][:-1], ids=[*BY_DESIGN][:-1])
def test_only_finite_values_have_an_error_and_a_magnitude(expected: np.ndarray) -> None:
    """Of values up to 4, each is larger by an eighth."""
    found = between(np.where(np.isfinite(expected), expected * 1.125, expected), expected)
    assert (found.is_equal, found.fault, found.absolute, found.relative) == (False, None, 0.5, 0.125)
    assert rounding.shares({"y": expected * 1.125}, {"y": expected})["y"] == pytest.approx(1 / 64)


def test_an_output_without_a_finite_value_is_named() -> None:
    assert between(np.full(3, np.nan), np.full(3, np.nan)).unknown == ("y",)
    assert between(MASKED, MASKED).unknown == ()
    assert between(np.zeros((2, 0)), np.zeros((2, 0))).unknown == ()


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.str_])
def test_an_output_without_an_element_is_named(dtype: type) -> None:
    nothing = np.zeros((3, 0, 4), dtype)
    assert between(nothing, nothing.copy()).empty == ("y",)
    of_other_shapes = ragged.stacked([np.zeros((0, rows), dtype) for rows in (1, 2)])
    assert between(of_other_shapes, of_other_shapes).empty == ("y",)
    assert between(np.zeros((3, 1), dtype), np.zeros((3, 1), dtype)).empty == ()
    assert between(boxes(0, 1), boxes(0, 1)).empty == ()
    found = between(np.zeros((3, 2, 4), dtype), nothing)
    assert (found.empty, [*found.shapes]) == ((), ["y"]), "its shape is told"


class Own(OwnTask):
    sources = ("onnx",)
    inputs = outputs = (TensorSpec(name="y", dtype="int64", shape=("n",)),)


TASK = Own(name="own", path=Path("task.py"))
BIG = 2**53
INTEGERS = [
    (np.array([BIG + 1], np.int64), np.array([BIG], np.int64), 1),
    (np.array([-BIG - 1], np.int64), np.array([-BIG], np.int64), 1),
    (np.array([2**63 + 1], np.uint64), np.array([2**63], np.uint64), 1),
    (np.array([2**64 - 1], np.uint64), np.array([2**64 - 2], np.uint64), 1),
    (np.array([2**64 - 1], np.uint64), np.array([-1], np.int64), 2**64),
    (np.array([2**63 - 1], np.int64), np.array([2**63], np.uint64), 1),
    (np.array([BIG + 1], np.uint64), np.array([BIG], np.int64), 1),
    (np.array([BIG + 1], np.int64), np.array([BIG], np.float64), 1),
    (np.array([BIG], np.float32), np.array([BIG + 1], np.int64), 1),
    (np.array([2.0**63]), np.array([2**63 - 1], np.int64), 1),
    (np.array([2], np.int32), np.array([True]), 1),
    (np.array([False]), np.array([True]), 1),
    (np.array([200], np.uint8), np.array([-56], np.int8), 256),
    (np.array([1.5], np.float32), np.array([1], np.int64), 0.5),
]


@pytest.mark.parametrize(
    ("output", "expected", "distance"),
    INTEGERS,
    ids=[f"{output.dtype} {output[0]} for {expected.dtype} {expected[0]}" for output, expected, _ in INTEGERS],
)
def test_integers_are_compared_as_integers(output: np.ndarray, expected: np.ndarray, distance: float) -> None:
    for made, right in ((output, expected), (expected, output)):
        found = between(made, right)
        assert (found.is_equal, found.absolute) == (False, distance)
        assert found.relative == pytest.approx(distance / abs(float(right[0]) or 1))
        assert between(ragged.stacked([made, made[:0]]), ragged.stacked([right, right[:0]])).absolute == distance
        (share,) = rounding.shares({"y": made}, {"y": right}).values()
        assert share == 1 if right.dtype.kind != "f" else share > 0
        assert TASK.loss({"y": made}, [{"y": right}]) == float(distance) ** 2


@pytest.mark.parametrize("one", [np.int64, np.uint64, np.float64, np.uint8])
@pytest.mark.parametrize("other", [np.int64, np.uint64, np.float32, np.int16])
def test_the_same_numbers_of_two_types_agree(one: type, other: type) -> None:
    values = [0, 1, 127] if np.dtype(one).itemsize == 1 or np.dtype(other).itemsize == 2 else [0, 1, BIG, 2**62]
    output, expected = np.array(values, one), np.array(values, other)
    assert between(output, expected).is_equal
    assert rounding.shares({"y": output}, {"y": expected}) == {"y": 0.0}
    assert between(np.array([True, False]), np.array([1, 0], other)).is_equal


def test_complex_numbers_differ_in_both_parts() -> None:
    assert between(np.array([1 + 3j]), np.array([1 + 2j])).absolute == 1
    assert between(np.array([1 + 2j], np.complex64), np.array([1 + 2j])).is_equal


def test_infinities_beside_integers_are_told() -> None:
    found = between(np.array([np.inf, BIG]), np.array([1, BIG + 1], np.int64))
    assert found.fault is not None
    assert found.fault.startswith("output y holds 1 values that are not finite, of 2")


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (
            (1, 1),
            np.nan,
            "output y holds 1 values that are not finite, of 6; the first, nan in sample 1 at [1]"
            ", is 4 in the reference",
        ),
        (
            (0, 1),
            np.inf,
            "output y holds 1 values that are not finite, of 6; the first, inf in sample 0 at [1]"
            ", is -inf in the reference",
        ),
        (
            (0, 1),
            np.nan,
            "output y holds 1 values that are not finite, of 6; the first, nan in sample 0 at [1]"
            ", is -inf in the reference",
        ),
        (
            (1, 0),
            -1e9,
            "output y holds 1 finite values where the reference's are not finite, of 6; the first, -1e+09 in sample 1 "
            "at [0], is -inf in the reference",
        ),
    ],
)
def test_other_values_that_are_not_finite_are_counted_with_the_place_of_the_first(
    place: tuple[int, int], value: float, reason: str
) -> None:
    output = MASKED.copy()
    output[place] = value
    assert between(output, MASKED).fault == reason
    assert rounding.shares({"y": output}, {"y": MASKED})["y"] > 1


def test_a_mask_elsewhere_is_told_from_both_sides() -> None:
    found = between(np.array([[1.0, 1.0, -np.inf]], np.float32), MASKED[:1], [7])
    assert found.fault == (
        "output y holds 1 values that are not finite, of 3, and 1 finite values where the reference's are not finite; "
        "the first, 1 in sample 7 at [1], is -inf in the reference"
    )


def boxes(*counts: int, first: float = 1.0) -> np.ndarray:
    """An output with so many rows of two values in each sample: `first` and larger by one in each row."""
    return ragged.stacked(first + np.arange(2 * rows, dtype=np.float32).reshape(rows, 2) for rows in counts)


def test_samples_are_compared_one_by_one_where_their_shapes_differ() -> None:
    found = between(boxes(2, 0, 3), boxes(2, 0, 3))
    assert (found.is_equal, found.reason(3)) == (True, None)
    found = between(boxes(2, 0, 3, first=1.25), boxes(2, 0, 3))
    assert (found.is_equal, found.reason(3), found.absolute, found.relative) == (False, None, 0.25, 0.25 / 6)


def test_another_number_of_rows_is_told_and_the_other_samples_are_compared() -> None:
    found = between(boxes(2, 1, 5), boxes(2, 1, 6), [9, 4, 3])
    assert found.reason(3) == (
        "output y has another shape than the reference's in 1 of 3 samples: sample 3 has 5 rows, the reference 6; "
        "the other 2 samples are equal"
    )
    found = between(boxes(2, 1, 1, first=1.5), boxes(2, 0, 6))
    assert found.reason(3) == (
        "output y has another shape than the reference's in 2 of 3 samples: sample 1 has 1 row, the reference 0; "
        "the other sample is off by up to 0.12 of the largest magnitude"
    )


def test_a_plain_output_beside_one_of_several_shapes() -> None:
    found = between(boxes(2, 2), boxes(2, 3))
    assert found.shapes == {
        "y": "output y has another shape than the reference's in 1 of 2 samples: sample 1 has 2 rows, the reference 3"
    }
    found = between(boxes(2, 3), ragged.stacked([np.zeros((2, 4)), np.zeros((3,))]))
    assert found.reason(2) == (
        "output y has another shape than the reference's in 2 of 2 samples: sample 0 has shape (2, 2), the reference "
        "(2, 4)"
    )


def test_values_that_are_not_finite_are_found_among_samples_of_several_shapes() -> None:
    expected, wrong = boxes(2, 0, 3), boxes(2, 0, 3)
    expected[2][1, 0] = wrong[2][1, 0] = -np.inf
    assert between(wrong, expected).is_equal
    wrong[2][2, 1] = np.nan
    assert between(wrong, expected, [5, 6, 7]).fault == (
        "output y holds 1 values that are not finite, of 10; the first, nan in sample 7 at [2, 1], is 6 in the "
        "reference"
    )


def test_indices_and_texts_of_several_shapes() -> None:
    indices = ragged.stacked([np.array([3, 1]), np.array([], np.int64), np.array([2])])
    other = ragged.stacked([np.array([3, 1]), np.array([], np.int64), np.array([5])])
    assert between(indices, indices).is_equal
    assert between(other, indices).absolute == 3
    texts = ragged.stacked([np.array(["a", "b"]), np.array(["c"])])
    assert between(texts, ragged.stacked([np.array(["a", "b"]), np.array(["d"])])).absolute == 1
    assert between(indices, texts).fault == "output y holds int64, not strings"


def test_shares_are_of_the_samples_that_can_be_compared() -> None:
    shape = ragged.SHAPES + "y"
    assert rounding.shares({"y": boxes(2, 5)}, {"y": boxes(2, 6)}) == {"y": 0.0, shape: 0.5}
    assert rounding.shares({"y": boxes(3, 5)}, {"y": boxes(2, 6)}) == {shape: 1.0}
    assert rounding.shares({"y": boxes(0, 0, 0)}, {"y": boxes(5, 5, 5)}) == {shape: 1.0}
    assert rounding.shares({"y": boxes(5, 5)}, {"y": boxes(5, 5, 5)}) == {shape: 1.0}
    assert rounding.shares({"y": boxes(1, 1, 1, 2)}, {"y": boxes(1, 1, 1, 1)}) == {"y": 0.0, shape: 0.25}
