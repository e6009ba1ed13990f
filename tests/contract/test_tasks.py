"""Every task that is found is one model: in its frameworks and after plain exports, at any batch and size.

Each plain cell takes the harness's own steps once: export, verify, count parameters. Each runs a few samples at several
batches and sizes. The whole test split goes through each framework's own form, for it says whether the frameworks have
the same model; every sweep verifies the whole split of the exports. Of the smallest model all of this is tested each
time, with a part of the split in place of the whole; of the others it is thorough, but for a few samples of the
frameworks' own forms.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from bench.api import Task, loading
from bench.api.cell import Cell
from bench.api.errors import BenchError
from bench.api.fidelity import EXEMPT, FidelityTask
from bench.api.loss_units import DB, AllowedLoss
from bench.api.names import PluginName
from bench.plugins import catalog
from bench.records.lines import Quality
from bench.records.metric_loss import RESOLUTION, Lost
from support import plugin_child
from support.workers import Workers

pytestmark = [pytest.mark.framework, pytest.mark.timeout(900), pytest.mark.slow(seconds=1)]

TASKS = [name for name, path in loading.find("models").items() if not path.is_relative_to(loading.PACKAGE.resolve())]
SMALLEST = "super_resolution"
BATCH = 16
SMALL_BATCHES = [1, 4]
NUM_SMALL = 4
ENOUGH = 32
"""Samples that show a loss of 0.1 dB at most, if none of them loses anything."""
NOT_EXPORTED = {("crnn", "tf_onnx_keras"), ("codegen_lm", "tf_onnx_keras")}
"""Tasks with a layer that an exporter cannot follow."""
T = TypeVar("T")
SAME = 1e-5
"""Largest difference over the largest magnitude that other sums of the same products may make."""


def is_own_form(cell: Cell) -> bool:
    """Whether it is a framework's own form of a model, which no exporter made."""
    return not catalog.exporter(cell.exporter).sources


def plain_cells(task: Task) -> list[Cell]:
    """In each of the task's frameworks its own form and every export to ONNX that quantizes nothing.

    The first one is the reference.
    """
    cells = []
    for source in task.sources:
        for name in loading.find("exporters"):
            exporter = catalog.exporter(name)
            if exporter.lossy or (task.name, name) in NOT_EXPORTED:  # in another precision it is another model
                continue
            artifact_format = exporter.format(source)
            if not exporter.sources or (source in exporter.sources and artifact_format == "onnx"):
                openers = (catalog.runtime(runtime) for runtime in loading.find("runtimes"))
                opener = next(opener for opener in openers if artifact_format in opener.default_for)
                on = f"{opener.name}/{opener.providers()[0]}/b{BATCH}t1"
                cells.append(Cell.from_path(f"{task.name}/{source}/{name}/raw/{on}"))
    return sorted(cells, key=lambda cell: not is_own_form(cell))


CELLS = {cell.path: cell for name in TASKS for cell in plain_cells(catalog.task(name))}
REFERENCES = {name: next(cell.path for cell in CELLS.values() if str(cell.task) == name) for name in TASKS}


def marked(paths: Iterable[str], *, own_forms: bool = False) -> list[Any]:
    """Cells as parameters; one process runs those of a task, whose reference it keeps.

    Args:
        paths: the cells.
        own_forms: whether frameworks' own forms are tested of each task and not of the smallest model alone.
    """
    marks = {path: [pytest.mark.xdist_group(str(CELLS[path].task))] for path in paths}
    for path, found in marks.items():
        if str(CELLS[path].task) != SMALLEST and not (own_forms and is_own_form(CELLS[path])):
            found.append(pytest.mark.thorough)
    return [pytest.param(path, marks=found) for path, found in marks.items()]


def verified(paths: Iterable[str]) -> list[Any]:
    """Cells with whether the first samples of the split stand for all: those of the smallest task, and each for all."""
    found = [(path, few) for path in paths for few in (True, False) if not few or str(CELLS[path].task) == SMALLEST]
    group = {path: pytest.mark.xdist_group(str(CELLS[path].task)) for path, _ in found}
    return [
        pytest.param(path, few, marks=[group[path]] if few else [group[path], pytest.mark.thorough])
        for path, few in found
    ]


ALL_BUT_REFERENCES = [path for path in CELLS if path not in REFERENCES.values()]
OWN_FORMS = [path for path in CELLS if is_own_form(CELLS[path])]
OTHERS = marked(ALL_BUT_REFERENCES, own_forms=True)
WHOLE = verified(path for path in ALL_BUT_REFERENCES if path in OWN_FORMS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found:
    """What one cell gave for a few samples.

    Attributes:
        num_params: as the table shows it.
        small: by `<batch>/<name>` of the first samples, by `cropped/<name>` of two cropped ones.
    """

    num_params: int | None
    small: dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Whole:
    """What one cell gave for the whole test split, or for its first samples.

    Attributes:
        judged: see `bench.pipeline.quality.judge`.
        outputs: by name, in batches of 16.
    """

    judged: Quality
    outputs: dict[str, np.ndarray]


class Laboratory:
    """Does everything for each cell once."""

    def __init__(self, folder: Path, workers: Workers) -> None:
        self.folder = folder
        self.workers = workers

    def found(self, path: str) -> Found:
        """What a cell gave for a few samples; skips the test where the cell cannot work."""
        return self.once(self.examine, path)

    def whole(self, path: str, few: bool) -> Whole:
        """What a cell gave for the whole test split, or its first samples; skips the test where it cannot work."""
        return self.once(self.judge_few if few else self.judge, path)

    def once(self, do: Callable[[Cell], T], path: str) -> T:
        for needed in (REFERENCES[str(CELLS[path].task)], path):
            if (reason := catalog.skip_reason(CELLS[needed])) is not None:
                pytest.skip(reason)
        outcome: T | BenchError = self.outcome(do, path)
        if isinstance(outcome, BenchError):
            raise outcome
        return outcome

    @functools.cache  # noqa: B019 (one laboratory a module)
    def outcome(self, do: Callable[[Cell], T], path: str) -> T | BenchError:
        try:
            return do(CELLS[path])
        except BenchError as error:
            return error

    def examine(self, cell: Cell) -> Found:
        artifact = self.workers.artifact_of(cell)
        small = self.outputs_of(cell.path, "small")
        ran = self.workers.run(
            plugin_child.run_small,
            runtime=str(cell.runtime),
            provider=str(cell.provider),
            task=str(cell.task),
            source=cell.source,
            artifact=str(artifact.path),
            num_samples=NUM_SMALL,
            batches=SMALL_BATCHES,
            target=str(small),
        )
        told = ran["num_params"] if is_own_form(cell) else None
        return Found(num_params=artifact.num_params if told is None else told, small=arrays(small))

    def judge(self, cell: Cell, few: bool = False) -> Whole:
        kind = "few" if few else "whole"
        reference = None
        if cell.path != REFERENCES[str(cell.task)]:  # the others are judged against it
            self.whole(REFERENCES[str(cell.task)], few)
            reference = self.outputs_of(REFERENCES[str(cell.task)], kind)
        outputs = self.outputs_of(cell.path, kind)
        judged = self.workers.verify(cell, self.workers.artifact_of(cell), reference, save_outputs=outputs, few=few)
        return Whole(judged=judged, outputs=arrays(outputs))

    def judge_few(self, cell: Cell) -> Whole:
        return self.judge(cell, few=True)

    def outputs_of(self, path: str, kind: str) -> Path:
        return self.folder / f"{path.replace('/', '-')}.{kind}.npz"


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
    if str(CELLS[path].task) != "codegen_lm":
        return {0}
    config = json.loads((catalog.task("codegen_lm").folder / "config.json").read_text())
    return {0, config["vocab_size"] * config["hidden_size"]}


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory, framework_worker: Workers) -> Laboratory:
    return Laboratory(tmp_path_factory.mktemp("laboratory"), framework_worker)


@pytest.mark.parametrize("task", TASKS)
def test_task_has_its_own_form_and_an_export_in_each_framework(task: str) -> None:
    for source in catalog.task(task).sources:
        exporters = [str(cell.exporter) for cell in CELLS.values() if (str(cell.task), cell.source) == (task, source)]
        assert [not catalog.exporter(name).sources for name in exporters].count(True) == 1
        assert len(exporters) >= 2


@pytest.mark.thorough
@pytest.mark.parametrize(("task", "exporter"), sorted(NOT_EXPORTED))
def test_a_layer_that_an_exporter_cannot_follow_is_refused(task: str, exporter: str, laboratory: Laboratory) -> None:
    cell = Cell.from_path(f"{task}/tf/{exporter}/raw/onnxruntime/cpu/b1t1")
    with pytest.raises(BenchError, match=r"the layer (Lstm|Decoder) computes in TensorFlow or NumPy, where Keras's"):
        laboratory.workers.artifact_of(cell)


@pytest.mark.parametrize("path", marked(OWN_FORMS))
def test_building_imports_no_package_late(path: str) -> None:
    """In a process of its own: the time and the memory of an import would count as the model's."""
    cell = CELLS[path]
    if (reason := catalog.skip_reason(cell)) is not None:
        pytest.skip(reason)
    how = {"runtime": str(cell.runtime), "provider": str(cell.provider), "task": str(cell.task), "source": cell.source}
    with Workers() as fresh:
        assert fresh.run(plugin_child.late_imports, **how) == {"packages": []}


@pytest.mark.parametrize(("path", "few"), WHOLE)
def test_agrees_with_the_reference_on_every_test_sample(path: str, few: bool, laboratory: Laboratory) -> None:
    found = laboratory.whole(path, few)
    reference = laboratory.whole(REFERENCES[str(CELLS[path].task)], few)
    assert found.outputs.keys() == reference.outputs.keys()
    for name, expected in reference.outputs.items():
        assert error(found.outputs[name], expected) <= 1e-4, name
    assert found.judged.fidelity in ("exact", "close")
    assert found.judged.precision == "float32"
    assert found.judged.num_params in (None, laboratory.found(path).num_params)


@pytest.mark.parametrize(("path", "few"), WHOLE)
def test_has_the_same_loss_and_metrics(path: str, few: bool, laboratory: Laboratory) -> None:
    """The loss to 3 digits, metrics to 4; one that counts samples is the very same, unlike decibels and bits."""
    task = catalog.task(CELLS[path].task)
    found, reference = laboratory.whole(path, few).judged, laboratory.whole(REFERENCES[task.name], few).judged
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


@pytest.mark.parametrize(("path", "few"), WHOLE)
def test_points_lost_by_the_samples_make_up_the_share_that_is_lost(
    path: str, few: bool, laboratory: Laboratory
) -> None:
    found = laboratory.whole(path, few).judged
    if isinstance(catalog.task(CELLS[path].task), FidelityTask):
        assert found.lost == EXEMPT
        return
    assert isinstance(found.lost, Lost)
    assert found.metric_loss is not None
    share = sum(points for _, points in found.lost.points) / found.lost.num_samples / found.lost.score
    points = found.metrics[found.metric_name] if found.loss_unit == DB else 1.0  # of which smaller losses are rounding
    assert share == pytest.approx(found.metric_loss, abs=RESOLUTION * points)
    shown = found.lost.high(max(ENOUGH, found.lost.num_samples))
    assert found.metric_loss < shown <= AllowedLoss().of(found.loss_unit)


@pytest.mark.parametrize("path", OTHERS)
def test_has_the_same_number_of_parameters(path: str, laboratory: Laboratory) -> None:
    expected = laboratory.found(REFERENCES[str(CELLS[path].task)]).num_params
    assert expected
    found = laboratory.found(path).num_params
    assert found is not None
    if (
        str(CELLS[path].exporter) == "torch_onnx_untied"
    ):  # shared ones are copied for each layer, which is what it is for
        assert found >= expected
    else:
        assert found - expected in stored_beside(path)


@pytest.mark.parametrize("path", marked(path for path in CELLS if str(CELLS[path].exporter).startswith("torch_onnx")))
def test_has_as_many_after_equal_weights_are_merged(path: str, laboratory: Laboratory) -> None:
    """Of weights that layers share, whether the exporter wrote them once or not, one is left."""
    expected = laboratory.found(REFERENCES[str(CELLS[path].task)]).num_params
    merged = laboratory.workers.artifact_of(dataclasses.replace(CELLS[path], chain=(PluginName("dedup"),)))
    assert merged.num_params is not None
    assert merged.num_params - expected in stored_beside(path)


@pytest.mark.parametrize("path", marked(CELLS, own_forms=True))
def test_outputs_of_a_sample_do_not_depend_on_its_batch(path: str, laboratory: Laboratory) -> None:
    small = laboratory.found(path).small
    for name in _names(path):
        alone, *others = (small[f"{batch}/{name}"] for batch in SMALL_BATCHES)
        for outputs in others:
            assert error(outputs, alone) <= SAME, name


@pytest.mark.parametrize(("path", "few"), verified(OWN_FORMS))
def test_outputs_of_a_sample_are_those_of_the_whole_split(path: str, few: bool, laboratory: Laboratory) -> None:
    small, whole = laboratory.found(path).small, laboratory.whole(path, few).outputs
    for name, outputs in whole.items():
        for batch in SMALL_BATCHES:
            assert error(small[f"{batch}/{name}"], outputs[:NUM_SMALL]) <= SAME, (name, batch)


@pytest.mark.parametrize("path", OTHERS)
def test_agrees_with_the_reference_on_a_few_samples_in_every_batch(path: str, laboratory: Laboratory) -> None:
    found, reference = laboratory.found(path), laboratory.found(REFERENCES[str(CELLS[path].task)])
    for name in _names(path):
        for batch in SMALL_BATCHES:
            expected = reference.small[f"{SMALL_BATCHES[0]}/{name}"]
            assert error(found.small[f"{batch}/{name}"], expected) <= 1e-4, (name, batch)


def _names(path: str) -> list[str]:
    return [spec.name for spec in catalog.task(CELLS[path].task).outputs]


@pytest.mark.parametrize("path", OTHERS)
def test_takes_other_sizes_wherever_a_dimension_is_dynamic(path: str, laboratory: Laboratory) -> None:
    found, reference = laboratory.found(path), laboratory.found(REFERENCES[str(CELLS[path].task)])
    for spec in catalog.task(CELLS[path].task).outputs:
        name = f"cropped/{spec.name}"
        assert error(found.small[name], reference.small[name]) <= 1e-4
