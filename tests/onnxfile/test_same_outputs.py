"""Two ONNX models are run on the same inputs, and the outputs that differ are named."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, helper

from bench.api.errors import ArtifactError
from bench.onnxfile.diff.same_outputs import check_same_outputs
from support import variant_graphs as graphs

pytest.importorskip("onnxruntime")


def scaled(factor: float, rest: tuple[int, ...] = (4,)) -> ModelProto:
    return graphs.model_of(
        [helper.make_node("Mul", ["x", "factor"], ["y"])],
        {"factor": np.full(rest, factor, np.float32)},
        inputs={"x": ["batch", 4]},
        outputs={"y": ["batch", *(["channels"] if len(rest) > 1 else []), 4]},
    )


def test_rounding_is_let_through() -> None:
    before = scaled(2)
    check_same_outputs(before, before, graphs.task_of(before))
    check_same_outputs(before, scaled(2.0001), graphs.task_of(before))


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (
            scaled(2.001),
            r"output y of training sample 0 differs by 0\.00\d+ at a magnitude of .*; at most 0\.0001 of that",
        ),
        (scaled(float("nan")), "output y of training sample 0 differs by nan"),
        (scaled(2, (3, 1, 4)), r"output y has the shape \(3, 1, 4\); before it was \(1, 4\)"),
    ],
    ids=["other numbers", "no numbers", "another shape"],
)
def test_what_differs_is_told(after: ModelProto, message: str) -> None:
    before = scaled(2)
    with pytest.raises(ArtifactError, match=message):
        check_same_outputs(before, after, graphs.task_of(before))
