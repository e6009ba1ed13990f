"""Another shape than the reference's, of deployments that claim to lose nothing: only where rounding makes it, too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.api import TensorSpec, ragged
from bench.pipeline import rounding
from bench.records.lines import Quality
from bench.tasks.user_task import OwnTask
from support import records


class Boxes(OwnTask):
    """A detector, whose metric may judge any number of boxes."""

    judges_other_shapes = True
    sources = ("onnx",)
    inputs = (TensorSpec(name="x", dtype="float32", shape=("batch", 4)),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", "rows", 4)),)


TASK = Boxes(name="boxes", path=Path("task.py"))
REFERENCE = records.quality(fidelity="exact", precision="float32")
SHAPE = ragged.SHAPES + "y"


def judged(
    shares: Mapping[str, float], explained: Mapping[str, float] | None, *, precision: str = "float32"
) -> Quality:
    found = records.quality(fidelity="drifted", precision=precision)
    return rounding.judged(TASK, found, shares, REFERENCE, lambda: explained)


@pytest.mark.parametrize(
    ("unlike", "by_rounding", "told"),
    [
        (1.0, 0.0, "in 100 % of the samples, and rounding changes the shape of none"),
        (0.002, 0.0, "in 0.2 % of the samples, and rounding changes the shape of none"),
        (0.5, 0.1, "in 50 % of the samples, and rounding explains 40 % at most"),
        (0.39, 0.1, None),
        (1.0, 0.25, None),
    ],
)
def test_another_shape_is_held_to_what_rounding_does(unlike: float, by_rounding: float, told: str | None) -> None:
    """Though the values of the samples that keep their shape are the reference's."""
    found = judged({"y": 0.0, SHAPE: unlike}, {SHAPE: by_rounding} if by_rounding else {"y": 1.0})
    assert found.fidelity == ("drifted" if told is None else "broken")
    assert told is None or f"but output y has another shape than the reference's {told}; no step" in str(found.reason)
    assert judged({SHAPE: unlike}, {}, precision="int8").fidelity == "drifted", "it claims nothing"
    assert judged({SHAPE: unlike}, None).fidelity == "drifted", "the model rounds by itself"


def test_of_several_faults_a_shape_that_never_changes_is_told() -> None:
    found = judged({"y": 0.1, SHAPE: 0.5}, {"y": 1e-11})
    assert found.fidelity == "broken"
    assert "output y has another shape" in str(found.reason)
