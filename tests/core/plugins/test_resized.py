"""A task at other sizes: samples are cut or repeated, and fidelity judges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.api import Task
from bench.api.errors import InputError
from bench.plugins import catalog

TASK = """
import numpy as np
from bench.api import Points, Samples, Task, TensorSpec

class Tokens(Task):
    sources = ("null",)
    batched = {batched}
    inputs = (
        TensorSpec(name="ids", dtype="int64", shape=({first}, "tokens")),
        TensorSpec(name="image", dtype="float32", shape=({first}, 2, "tokens", "rows/2")),
    )
    outputs = (TensorSpec(name="y", dtype="float32", shape=({first}, "tokens")),)
    weights = None
    metric_name = "errors"
    higher_is_better = False
    is_error_rate = True
    max_metric_loss = 0.01

    def build(self, source, weights):
        raise NotImplementedError

    def samples(self, split):
        lead = (20,) if self.batched else (20, 1)
        ids = np.arange(20 * 4).reshape(*lead, 4)
        image = np.arange(20 * 2 * 4 * 3, dtype=np.float32).reshape(*lead, 2, 4, 3)
        return Samples(inputs=dict(ids=ids, image=image), targets=["own"] * 20, names=tuple(map(str, range(20))))

    def loss(self, outputs, targets):
        raise AssertionError("the task's own targets are not there")

    metrics = metric = points = loss
"""


@pytest.fixture(params=[True, False], ids=["batched", "whole requests"])
def batched(request: pytest.FixtureRequest, plugin_folder: Path) -> bool:
    is_batched = bool(request.param)
    (plugin_folder / "models" / "tokens").mkdir(parents=True)
    text = TASK.format(batched=is_batched, first="'batch'" if is_batched else "1")
    (plugin_folder / "models" / "tokens" / "task.py").write_text(text)
    catalog.forget()
    return is_batched


def test_samples_are_cut_and_repeated(batched: bool) -> None:
    own, made = catalog.task("tokens").samples("test").inputs, catalog.task("tokens@tokens=6,rows_2=2").samples("test")
    ids = own["ids"].reshape(20, 4)
    np.testing.assert_array_equal(made.inputs["ids"].reshape(16, 6), np.hstack([ids, ids[:, :2]])[:16])
    image, expected = made.inputs["image"].reshape(16, 2, 6, 2), own["image"].reshape(20, 2, 4, 3)
    np.testing.assert_array_equal(image, np.concatenate([expected, expected[:, :, :2]], axis=2)[:16, ..., :2])
    assert made.inputs["ids"].ndim == own["ids"].ndim
    assert made.targets is None
    assert made.names == tuple(map(str, range(16)))


def test_lengths_follow_the_dimension_that_changed_alone(plugin_folder: Path) -> None:
    """`features_length` is a number that a person gave: nothing of `features` has another size."""
    (plugin_folder / "models" / "tokens").mkdir(parents=True)
    shapes = {"ids": '("batch", "tokens")', "features": '("batch", 3)'}
    specs = [f'TensorSpec(name="{name}", dtype="int64", shape={shape})' for name, shape in shapes.items()]
    specs += [f'TensorSpec(name="{name}_length", dtype="int64", shape=("batch",))' for name in shapes]
    text = TASK.format(batched=True, first="'batch'")
    text = text.replace("weights = None", f"inputs = ({', '.join(specs)})\n    weights = None")
    arrays = "dict(ids=ids, features=ids[:, :3], ids_length=ids[:, 0] + 4, features_length=ids[:, 0] + 9)"
    (plugin_folder / "models" / "tokens" / "task.py").write_text(text.replace("dict(ids=ids, image=image)", arrays))
    catalog.forget()
    made = catalog.task("tokens@tokens=2").samples("test").inputs
    assert made["ids_length"].tolist() == [2] * 16
    assert made["features_length"].tolist() == [4 * row + 9 for row in range(16)]


def test_fidelity_judges(batched: bool) -> None:
    task: Task = catalog.task("tokens@tokens=6")
    assert (task.name, task.metric_name, task.higher_is_better) == ("tokens@tokens=6", "snr_db", True)
    outputs = {"y": np.array([[3.0, 4.0]])}
    assert task.metrics(outputs, [{"y": np.array([3.0, 4.0])}]) == {"snr_db": 120.0}
    assert task.metric(outputs, [{"y": np.array([3.0, 4.0])}]) == 120.0, "although its class has a metric of its own"
    assert task.points(outputs, [{"y": np.array([3.0, 4.0])}]) == "it is judged by fidelity alone"
    assert task.metric_loss(40.0, 120.0) == pytest.approx(0.01)
    assert catalog.task("tokens").metric_name == "errors"


def test_dimension_that_the_model_does_not_have(batched: bool) -> None:
    with pytest.raises(InputError, match=r"tokens has no dimension 'width' of any size; .*: tokens, rows/2"):
        catalog.task("tokens@width=3")


def test_batch_is_no_size_of_the_task(batched: bool) -> None:
    with pytest.raises(InputError, match="no dimension 'batch' of any size"):
        catalog.task("tokens@batch=3")
