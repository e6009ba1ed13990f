"""Outputs whose samples have shapes of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.api import ragged
from bench.pipeline import feeding

BOXES = [np.arange(4 * rows, dtype=np.float32).reshape(rows, 4) for rows in (2, 0, 3)]


def test_samples_of_one_shape_are_a_plain_array() -> None:
    found = ragged.stacked([BOXES[0], BOXES[0] + 1])
    assert (found.shape, found.dtype) == ((2, 2, 4), np.float32)
    assert not ragged.is_ragged(found)


def test_samples_of_several_shapes_keep_them() -> None:
    found = ragged.stacked(BOXES)
    assert ragged.is_ragged(found)
    assert [sample.shape for sample in found] == [(2, 4), (0, 4), (3, 4)]
    assert ragged.dtype_of(found) == np.float32
    assert ragged.num_bytes(found) == 4 * (8 + 0 + 12)
    assert ragged.flat(found).tolist() == [*range(8), *range(12)]


def test_batches_are_joined_whatever_the_shapes_of_their_samples() -> None:
    plain = ragged.joined([np.zeros((2, 3)), np.ones((1, 3))])
    assert plain.tolist() == [[0] * 3, [0] * 3, [1] * 3]
    mixed = ragged.joined([np.zeros((2, 3)), np.ones((1, 5))])
    assert [sample.tolist() for sample in mixed] == [[0] * 3, [0] * 3, [1] * 5]
    again = ragged.joined([mixed, np.zeros((1, 3))])
    assert [sample.shape for sample in again] == [(3,), (3,), (5,), (3,)]


def test_rows_are_replaced_by_others_of_any_shape() -> None:
    found = ragged.replaced(np.zeros((3, 2), np.float32), [1], ragged.stacked([np.ones((5, 2)), np.ones((4, 2))])[:1])
    assert [sample.shape for sample in found] == [(2,), (5, 2), (2,)]
    assert ragged.replaced(np.zeros((3, 2), np.float32), [2, 0], np.array([[1, 1], [2, 2]])).tolist() == [
        [2, 2],
        [0, 0],
        [1, 1],
    ]


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (np.array([1, 2]), np.array([2.75])),
        (np.array([True, False]), np.array([5])),
        (np.array([1, 2], np.uint8), np.array([-300])),
        (np.array([2**62 + 1, 2]), np.array([7], np.uint64)),
    ],
)
def test_rows_of_another_type_keep_their_values(array: np.ndarray, values: np.ndarray) -> None:
    assert ragged.replaced(array, [1], values).tolist() == [*array[:1].tolist(), *values.tolist()]


def test_equal_is_every_shape_and_value_and_a_nan_is_a_nan() -> None:
    boxes = ragged.stacked(BOXES)
    assert ragged.equal(boxes, ragged.stacked([box.copy() for box in BOXES]))
    assert not ragged.equal(boxes, ragged.stacked([*BOXES[:2], BOXES[2][:2]]))
    assert not ragged.equal(boxes, ragged.stacked([*BOXES[:2], BOXES[2] + 1]))
    assert ragged.equal(np.array([np.nan, -np.inf]), np.array([np.nan, -np.inf]))
    assert not ragged.equal(np.array([np.nan, np.inf]), np.array([np.nan, -np.inf]))
    assert ragged.equal(np.array(["a", "b"]), np.array(["a", "b"]))


@pytest.mark.parametrize(
    "samples",
    [
        BOXES,
        [np.zeros((0, 3), np.int64), np.zeros((0, 3), np.int64)],
        [np.array(3.5), np.array([1.0, 2.0]), np.zeros((2, 0))],
        [np.array(["a"]), np.array(["long", "er"])],
        [np.array([[np.nan, -np.inf]]), np.array([[np.inf]])],
    ],
    ids=["boxes", "all empty", "ranks", "strings", "not finite"],
)
def test_a_file_gives_back_what_was_written(samples: list[np.ndarray], tmp_path: Path) -> None:
    outputs = {"plain": np.arange(6).reshape(3, 2), "y": ragged.stacked(samples)}
    feeding.save_outputs(tmp_path / "outputs.npz", outputs)
    found = feeding.load_outputs(tmp_path / "outputs.npz")
    assert found.keys() == outputs.keys()
    assert all(ragged.equal(found[name], array) for name, array in outputs.items())
    assert ragged.dtype_of(found["y"]).kind == ragged.dtype_of(outputs["y"]).kind
