"""Every task that is found is one model: in its frameworks and after plain exports, at any batch and size.

Each plain cell takes the harness's own steps once: export, verify, count parameters. The whole test split goes through
each framework's own form, for it says whether the frameworks have the same model; the exports, whose whole split every
sweep verifies, run a few samples at several batches and sizes.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Task, loading
from bench.api.cell import RAW, Cell
from bench.api.errors import BenchError
from bench.api.fidelity import EXEMPT, FidelityTask
from bench.plugins import catalog
from bench.records.lines import Quality
from bench.records.metric_loss import RESOLUTION, Lost
from support import plugin_child
from support.workers import Workers

pytestmark = [pytest.mark.framework, pytest.mark.timeout(900), pytest.mark.slow(seconds=1)]

TASKS = [name for name, path in loading.find("models").items() if not path.is_relative_to(loading.PACKAGE.resolve())]
BATCH = 16
SMALL_BATCHES = [1, 4]
NUM_SMALL = 4
SAME = 1e-5
"""Largest difference over the largest magnitude that other sums of the same products may make."""


def is_own_form(cell: Cell) -> bool:
    """Whether it is a framework's own form of a model, which no exporter made."""
    return not catalog.exporter(cell.exporter).sources


def plain_cells(task: Task) -> list[Cell]:
    """In each of the task's frameworks its own form and every export to ONNX; the first one is the reference."""
    cells = []
    for source in task.sources:
        for name in loading.find("exporters"):
            exporter = catalog.exporter(name)
            artifact_format = exporter.format(source)
            if not exporter.sources or (source in exporter.sources and artifact_format == "onnx"):
                openers = (catalog.runtime(runtime) for runtime in loading.find("runtimes"))
                opener = next(opener for opener in openers if artifact_format in opener.default_for)
                cell = Cell(
                    task=task.name,
                    source=source,
                    exporter=name,
                    variant=RAW,
                    runtime=opener.name,
                    provider=opener.providers()[0],
                    batch=BATCH,
                )
                cells.append(cell)
    return sorted(cells, key=lambda cell: not is_own_form(cell))


CELLS = {cell.path: cell for name in TASKS for cell in plain_cells(catalog.task(name))}
REFERENCES = {name: next(cell.path for cell in CELLS.values() if cell.task == name) for name in TASKS}


def grouped(paths: Iterable[str]) -> list[Any]:
    """Cells as parameters; one process runs those of a task, whose reference it keeps."""
    return [pytest.param(path, marks=pytest.mark.xdist_group(CELLS[path].task)) for path in paths]


ALL_BUT_REFERENCES = [path for path in CELLS if path not in REFERENCES.values()]
OTHERS, WHOLE = grouped(ALL_BUT_REFERENCES), grouped(path for path in ALL_BUT_REFERENCES if is_own_form(CELLS[path]))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found:
    """What one cell gave.

    Attributes:
        judged: see `bench.pipeline.quality.judge`; None where a few samples ran.
        num_params: as the table shows it.
        outputs: by name, of the whole test split, in batches of 16; empty where a few samples ran.
        small: by `<batch>/<name>` of the first samples in smaller batches, by `cropped/<name>` of two cropped ones.
    """

    judged: Quality | None
    num_params: int | None
    outputs: dict[str, np.ndarray]
    small: dict[str, np.ndarray]


class Laboratory:
    """Does everything for each cell once."""

    def __init__(self, folder: Path, workers: Workers) -> None:
        self.folder = folder
        self.workers = workers

    def found(self, path: str) -> Found:
        """What a cell gave; skips the test where the cell cannot work."""
        for needed in (REFERENCES[CELLS[path].task], path):
            if (reason := catalog.skip_reason(CELLS[needed])) is not None:
                pytest.skip(reason)
        found = self.outcome(path)
        if isinstance(found, BenchError):
            raise found
        return found

    @functools.cache  # noqa: B019 (one laboratory a module)
    def outcome(self, path: str) -> Found | BenchError:
        try:
            return self.examine(CELLS[path])
        except BenchError as error:
            return error

    def examine(self, cell: Cell) -> Found:
        reference = None
        if cell.path != REFERENCES[cell.task]:  # the others are judged against it
            self.found(REFERENCES[cell.task])
            reference = self.outputs_of(REFERENCES[cell.task])
        outputs = self.outputs_of(cell.path)
        artifact = self.workers.artifact_of(cell)
        is_whole = is_own_form(cell)
        judged = self.workers.verify(cell, artifact, reference, save_outputs=outputs) if is_whole else None
        small = outputs.with_suffix(".small.npz")
        self.workers.run(
            plugin_child.run_small,
            runtime=cell.runtime,
            provider=cell.provider,
            task=cell.task,
            source=cell.source,
            artifact=str(artifact.path),
            num_samples=NUM_SMALL,
            batches=SMALL_BATCHES,
            target=str(small),
        )
        return Found(
            judged=judged,
            num_params=artifact.num_params if judged is None or judged.num_params is None else judged.num_params,
            outputs=arrays(outputs) if is_whole else {},
            small=arrays(small),
        )

    def outputs_of(self, path: str) -> Path:
        return self.folder / f"{path.replace('/', '-')}.npz"


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return dict(file)


def error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Largest absolute difference of any sample over that sample's largest magnitude."""
    assert actual.shape == expected.shape
    axes = tuple(range(1, expected.ndim))
    differences = np.abs(actual.astype(np.float64) - expected).max(axis=axes)
    return float((differences / np.abs(expected).max(axis=axes)).max())


def stored_beside(path: str) -> set[int]:
    """How many elements a file may hold beside the parameters.

    In codegen_lm it is the transposed embedding, which an exporter writes a second time where it folds the
    transposition before the last product.
    """
    if CELLS[path].task != "codegen_lm":
        return {0}
    config = json.loads((catalog.task("codegen_lm").folder / "config.json").read_text())
    return {0, config["vocab_size"] * config["hidden_size"]}


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory, framework_worker: Workers) -> Laboratory:
    return Laboratory(tmp_path_factory.mktemp("laboratory"), framework_worker)


@pytest.mark.parametrize("task", TASKS)
def test_task_has_its_own_form_and_an_export_in_each_framework(task: str) -> None:
    for source in catalog.task(task).sources:
        exporters = [cell.exporter for cell in CELLS.values() if (cell.task, cell.source) == (task, source)]
        assert [not catalog.exporter(name).sources for name in exporters].count(True) == 1
        assert len(exporters) >= 2


@pytest.mark.parametrize("path", grouped(path for path, cell in CELLS.items() if is_own_form(cell)))
def test_building_imports_no_package_late(path: str) -> None:
    """In a process of its own: the time and the memory of an import would count as the model's."""
    cell = CELLS[path]
    if (reason := catalog.skip_reason(cell)) is not None:
        pytest.skip(reason)
    how = {"runtime": cell.runtime, "provider": cell.provider, "task": cell.task, "source": cell.source}
    with Workers() as fresh:
        assert fresh.run(plugin_child.late_imports, **how) == {"packages": []}


@pytest.mark.parametrize("path", WHOLE)
def test_agrees_with_the_reference_on_every_test_sample(path: str, laboratory: Laboratory) -> None:
    found = laboratory.found(path)
    reference = laboratory.found(REFERENCES[CELLS[path].task])
    assert found.outputs.keys() == reference.outputs.keys()
    for name, expected in reference.outputs.items():
        assert error(found.outputs[name], expected) <= 1e-4, name
    assert found.judged is not None
    assert found.judged.fidelity in ("exact", "close")
    assert found.judged.precision == "float32"


@pytest.mark.parametrize("path", WHOLE)
def test_has_the_same_loss_and_metrics(path: str, laboratory: Laboratory) -> None:
    """The loss to 3 digits, metrics to 4; one that counts samples is the very same, unlike decibels and bits."""
    task = catalog.task(CELLS[path].task)
    found, reference = laboratory.found(path).judged, laboratory.found(REFERENCES[task.name]).judged
    assert found is not None
    assert reference is not None
    assert found.metrics is not None
    assert reference.metrics is not None
    if isinstance(task, FidelityTask):  # these tell what the frameworks differ in
        assert reference.metrics == {"snr_db": 120}
        assert found.metrics["snr_db"] >= 100
        return
    assert found.loss == pytest.approx(reference.loss, rel=5e-4)
    assert found.metrics == pytest.approx(reference.metrics, rel=5e-5)
    if not task.metric_name.endswith(("_db", "_per_byte")):
        assert found.metrics[task.metric_name] == reference.metrics[task.metric_name]


@pytest.mark.parametrize("path", WHOLE)
def test_points_lost_by_the_samples_make_up_the_share_that_is_lost(path: str, laboratory: Laboratory) -> None:
    found = laboratory.found(path).judged
    assert found is not None
    if isinstance(catalog.task(CELLS[path].task), FidelityTask):
        assert found.lost == EXEMPT
        return
    assert isinstance(found.lost, Lost)
    assert found.metric_loss is not None
    share = sum(points for _, points in found.lost.points) / found.lost.num_samples / found.lost.score
    assert share == pytest.approx(found.metric_loss, abs=RESOLUTION)
    assert found.metric_loss < found.lost.high() <= 0.01


@pytest.mark.parametrize("path", OTHERS)
def test_has_the_same_number_of_parameters(path: str, laboratory: Laboratory) -> None:
    expected = laboratory.found(REFERENCES[CELLS[path].task]).num_params
    assert expected
    found = laboratory.found(path).num_params
    assert found is not None
    if CELLS[path].exporter == "torch_onnx_untied":  # shared ones are copied for each layer, which is what it is for
        assert found >= expected
    else:
        assert found - expected in stored_beside(path)


@pytest.mark.parametrize("path", grouped(path for path in CELLS if CELLS[path].exporter.startswith("torch_onnx")))
def test_has_as_many_after_equal_weights_are_merged(path: str, laboratory: Laboratory) -> None:
    """Of weights that layers share, whether the exporter wrote them once or not, one is left."""
    expected = laboratory.found(REFERENCES[CELLS[path].task]).num_params
    merged = laboratory.workers.artifact_of(dataclasses.replace(CELLS[path], variant="dedup"))
    assert merged.num_params is not None
    assert merged.num_params - expected in stored_beside(path)


@pytest.mark.parametrize("path", grouped(CELLS))
def test_outputs_of_a_sample_do_not_depend_on_its_batch(path: str, laboratory: Laboratory) -> None:
    found = laboratory.found(path)
    whole = found.outputs or {name: found.small[f"{SMALL_BATCHES[0]}/{name}"] for name in _names(path)}
    for name, outputs in whole.items():
        for batch in SMALL_BATCHES:
            assert error(found.small[f"{batch}/{name}"], outputs[:NUM_SMALL]) <= SAME, (name, batch)


@pytest.mark.parametrize("path", OTHERS)
def test_agrees_with_the_reference_on_a_few_samples_in_every_batch(path: str, laboratory: Laboratory) -> None:
    found, reference = laboratory.found(path), laboratory.found(REFERENCES[CELLS[path].task])
    for name in _names(path):
        for batch in SMALL_BATCHES:
            assert error(found.small[f"{batch}/{name}"], reference.outputs[name][:NUM_SMALL]) <= 1e-4, (name, batch)


def _names(path: str) -> list[str]:
    return [spec.name for spec in catalog.task(CELLS[path].task).outputs]


@pytest.mark.parametrize("path", OTHERS)
def test_takes_other_sizes_wherever_a_dimension_is_dynamic(path: str, laboratory: Laboratory) -> None:
    found, reference = laboratory.found(path), laboratory.found(REFERENCES[CELLS[path].task])
    for spec in catalog.task(CELLS[path].task).outputs:
        name = f"cropped/{spec.name}"
        assert error(found.small[name], reference.small[name]) <= 1e-4
