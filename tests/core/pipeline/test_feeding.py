"""The requests that are timed, cut from a split."""

from __future__ import annotations

import numpy as np
import pytest

from bench.api import Samples, Task
from bench.api.errors import ArtifactError
from bench.measure.limits import Limits
from bench.measure.session import Opened, Worker
from bench.pipeline import feeding, operations, prepare
from bench.plugins import catalog
from bench.plugins.models.toy.task import Toy


class Single(Toy):
    one_input = True


class Whole(Toy):
    batched = False


def task_of(kind: type[Task]) -> Task:
    return kind(name="toy", path=catalog.task("toy").path)


def rows(requests: list[dict[str, np.ndarray]]) -> list[list[int]]:
    """The numbers of the samples of each request, whose inputs hold nothing but their own number."""
    return [np.atleast_2d(request["x"])[:, 0].astype(int).tolist() for request in requests]


def split(num_samples: int, width: int = 8) -> dict[str, np.ndarray]:
    return {"x": np.repeat(np.arange(num_samples, dtype=np.float32)[:, None], width, axis=1)}


def test_samples_come_in_an_order_that_never_changes() -> None:
    found = rows(feeding.timed(task_of(Toy), split(100), 1))
    assert found == [[55], [51], [39], [49], [65], [9], [50], [91], [46], [53], [98], [8], [54], [47], [78], [29]]
    assert rows(feeding.timed(task_of(Toy), split(100), 4))[:2] == [[55, 51, 39, 49], [65, 9, 50, 91]]


@pytest.mark.parametrize(("num_samples", "batch", "count"), [(16, 1, 16), (16, 4, 4), (5, 2, 3), (3, 8, 1), (1, 1, 1)])
def test_each_sample_is_in_one_request_as_long_as_there_are_enough(num_samples: int, batch: int, count: int) -> None:
    found = rows(feeding.timed(task_of(Toy), split(num_samples), batch))
    assert [len(request) for request in found] == [batch] * count
    assert {row for request in found for row in request} == set(range(num_samples))


def test_task_may_say_that_one_input_is_enough() -> None:
    (request,) = feeding.timed(task_of(Single), split(100), 2)
    assert rows([request]) == [[55, 51]]


def test_sample_that_is_a_request_has_no_axis_of_samples() -> None:
    found = feeding.timed(task_of(Whole), split(100), 1)
    assert [request["x"].shape for request in found] == [(8,)] * 16


def test_large_requests_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "MOST_BYTES", 3 * 4 * 8 * 2)  # three requests of two samples of eight floats
    assert len(feeding.timed(task_of(Toy), split(100), 2)) == 3
    monkeypatch.setattr(feeding, "MOST_BYTES", 1)
    assert len(feeding.timed(task_of(Toy), split(100), 2)) == 1


def test_requests_own_their_memory() -> None:
    inputs = split(100)
    assert not any(np.shares_memory(request["x"], inputs["x"]) for request in feeding.timed(task_of(Toy), inputs, 1))


def test_worker_answers_the_request_of_the_pass(session_cache: object, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = prepare.inputs_of(catalog.task("toy"), Limits.of(step_s=60, memory_bytes=None))
    opened: list[Opened] = []
    open_session = operations.open_session
    monkeypatch.setattr(operations, "open_session", lambda **given: opened.append(open_session(**given)) or opened[0])
    worker = Worker({})
    cell, artifact = "toy/null/native/raw/null/cpu/b4t1", str(catalog.task("toy").folder / "weights.json")
    facts = worker.do(
        "bench.pipeline.operations:open_session", {"cell": cell, "artifact": artifact, "inputs": str(inputs)}
    )
    assert facts["num_requests"] == 4
    ran: list[np.ndarray] = []
    monkeypatch.setattr(opened[0].session, "run", lambda feeds: ran.append(feeds["x"]))
    plan = {"warm_ns": 0, "target_ns": 0, "min_runs": 2, "max_runs": 2}
    for request in (0, 3, 4, 65_535):
        worker.burst(request=request, **plan)
        assert len(ran) == 3, "all inferences of a burst answer one request"
        assert all(x is opened[0].requests[request % 4]["x"] for x in ran)
        ran.clear()
    samples = catalog.task("toy").samples("test").inputs["x"]
    assert sorted(map(tuple, np.concatenate([request["x"] for request in opened[0].requests]))) == sorted(
        map(tuple, samples)
    )


def test_outputs_of_a_split_may_have_a_shape_for_each_sample() -> None:
    """Request n has n rows, the first none."""
    task = task_of(Whole)
    samples = Samples(inputs=split(4), targets=None)
    found = feeding.run_all(lambda feeds: [np.zeros((int(feeds["x"][0]), 2))], task, samples, 1)
    assert [output.shape for output in found["y"]] == [(0, 2), (1, 2), (2, 2), (3, 2)]
    few = feeding.rows_of(found, [2, 0])
    assert [output.shape for output in few["y"]] == [(2, 2), (0, 2)]
    same = feeding.run_all(lambda feeds: [np.zeros((5, 2))], task, samples, 1)
    assert same["y"].shape == (4, 5, 2)


def test_a_batch_whose_outputs_have_another_number_of_rows_is_refused() -> None:
    """Else the rows beyond the batch would be cut off, and the others taken for its samples."""
    samples = Samples(inputs=split(4), targets=None)
    says = r"output y has shape \(3, 2\) for a batch of 2: its first axis is not that of the samples"
    with pytest.raises(ArtifactError, match=says):
        feeding.run_all(lambda feeds: [np.zeros((3, 2))], task_of(Toy), samples, 2)
