"""Models with inputs that an engine does not have: they are refused before anything is exported."""

from __future__ import annotations

import pytest

from bench.api import TensorSpec
from bench.plugins import catalog
from support import small_models


def task_of(dtype: str, *, batched: bool = True) -> small_models.SmallTask:
    specs = (TensorSpec(name="x", dtype=dtype, shape=("batch", 4) if batched else (4,)),)
    kind = type("OneTask", (small_models.SmallTask,), {"inputs": specs, "outputs": specs, "batched": batched})
    task = small_models.make_task(kind)
    assert isinstance(task, small_models.SmallTask)
    return task


@pytest.mark.parametrize("dtype", ["bool", "uint8", "float16", "float64"])
def test_types_that_an_engine_lacks_are_refused(dtype: str) -> None:
    reason = f"it has no {dtype}, and the input 'x' is such"
    assert catalog.runtime("mnn").refusal(task_of(dtype)) == reason
    assert catalog.exporter("torch_ncnn").refusal(task_of(dtype)) == reason


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_types_that_an_engine_has_are_taken(dtype: str) -> None:
    assert catalog.runtime("mnn").refusal(task_of(dtype)) is None
    assert catalog.exporter("torch_ncnn").refusal(task_of(dtype)) is None


def test_ncnn_takes_no_model_without_an_axis_of_samples() -> None:
    reason = "ncnn takes samples along a first axis, which this model does not have"
    assert catalog.exporter("torch_ncnn").refusal(task_of("float32", batched=False)) == reason
    assert catalog.runtime("mnn").refusal(task_of("float32", batched=False)) is None
