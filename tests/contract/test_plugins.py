"""The contract of `bench.api`, kept by every plugin that is found: a new file is tested as soon as it is there.

A check that needs a package runs once, in a worker process, where the package cannot disturb plugins of others.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import itertools
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.api import Exporter, Plugin, Task, cache, loading
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ChildError, InputError
from bench.api.names import TaskName
from bench.api.plugin import NPM
from bench.onnxfile.file.digest import canonical_digest
from bench.onnxfile.file.interface import check_kept
from bench.plugins import catalog
from support import node, plugin_child
from support.workers import Workers

LOADERS = {
    "exporters": catalog.exporter,
    "variants": catalog.variant_file,
    "runtimes": catalog.runtime,
    "models": catalog.task,
}
FOUND = [(kind, name) for kind in LOADERS for name in loading.find(kind)]
CORNER = 64
"""Height and width of the corners of photographs on which the network of super_resolution runs here."""
TASKS = (f"super_resolution@height={CORNER},width={CORNER}", "toy")
"""Small tasks to try exporters, variants and runtimes on, the first that fits."""
FRAMEWORK_FREE = "toy"
BATCHES = (1, 2, 5)  # an export that bakes its example's batch passes at one of them only

NOT_OPENED = {("tract", "tf_onnx_keras"): "If"}
"""An operator of an export, as a runtime's error names it, that the runtime does not take as the exporter writes it."""


def task_for(source: str) -> Task | None:
    return next((catalog.task(name) for name in TASKS if source in catalog.task(name).sources), None)


def exports() -> list[Any]:
    """Every exporter with every source that it takes; those that refuse the task export decoders alone."""
    every = dict.fromkeys(source for name in TASKS for source in catalog.task(name).sources)
    cases = []
    for name in loading.find("exporters"):
        for source in catalog.exporter(name).sources or every:
            task = task_for(source)
            if task is not None and catalog.exporter(name).refusal(task) is None:
                marks = [] if task.name == FRAMEWORK_FREE else [pytest.mark.framework]
                cases.append(pytest.param(name, source, marks=marks, id=f"{name}-{source}"))
    return cases


def twice(cases: list[Any], compiling: Collection[str]) -> list[Any]:
    """Each case for one of its combinations, and once more for all of them, which is thorough.

    Args:
        cases: the cases, each of which begins with the plugin's name.
        compiling: names of plugins that compile a model for half a minute: all their cases are thorough.
    """
    found = []
    for every, case in itertools.product((False, True), cases):
        marks = [pytest.mark.thorough] if every or case.values[0] in compiling else []
        name = f"{case.id}-every" if every else case.id
        found.append(pytest.param(*case.values, every, id=name, marks=[*case.marks, *marks]))
    return found


def compiling_exporters() -> set[str]:
    return {name for name in loading.find("exporters") if catalog.exporter(name).compiles}


def compiling_runtimes() -> set[str]:
    """Runtimes that compile, and those that open nothing but what is compiled."""
    made = {catalog.exporter(name).format("torch") for name in compiling_exporters()}
    known = {name: catalog.runtime(name) for name in loading.find("runtimes")}
    return {name for name, one in known.items() if one.compiles or (one.formats and set(one.formats) <= made)}


def variants() -> list[Any]:
    """Every variant, for one export each; the first option of a file for every export, too, which is thorough."""
    cases = [pytest.param(name, False, id=name) for name in catalog.variants()]
    for name, found in catalog.variants().items():
        if found.option in (None, "", *found.variant.options[:1]):
            cases.append(pytest.param(name, True, id=f"{name}-every", marks=pytest.mark.thorough))
    return cases


class Workshop:
    """Makes each artifact and each set of outputs once."""

    def __init__(self, folder: Path, workers: Workers) -> None:
        self.folder = folder
        self.workers = workers

    def artifact(self, exporter: str, source: str) -> Path:
        """The artifact of the task for this source; its folder is the cache's, with one more file."""
        return self._artifact(exporter, source).path

    def takes_one(self, exporter: str, source: str) -> bool:
        """Whether the artifact takes one sample at a time."""
        return self._artifact(exporter, source).info.get("batch") == 1

    def _artifact(self, exporter: str, source: str) -> Artifact:
        task = task_for(source)
        assert task is not None
        runtime = openers(catalog.exporter(exporter).format(source))[0]
        provider = catalog.runtime(runtime).providers()[0]
        cell = Cell.from_path(f"{task.name}/{source}/{exporter}/raw/{runtime}/{provider}/b1t1")
        return self.workers.artifact_of(cell)

    @functools.cache  # noqa: B019 (one workshop a session)
    def outputs(
        self, runtime: str, provider: str, source: str, artifact: Path, batches: tuple[int, ...] = BATCHES
    ) -> dict[str, np.ndarray]:
        task = task_for(source)
        assert task is not None
        target = self.folder / "outputs.npz"
        self.workers.run(
            plugin_child.run,
            runtime=runtime,
            provider=provider,
            task=task.name,
            source=source,
            artifact=str(artifact),
            batches=list(batches),
            target=str(target),
        )
        with np.load(target) as saved:
            return dict(saved)

    def check_not_opened(self, runtime: str, exporter: str, source: str) -> None:
        """The runtime opens it no more than `NOT_OPENED` says, and its error names the operator."""
        provider = catalog.runtime(runtime).providers()[0]
        with pytest.raises(ChildError, match=NOT_OPENED[runtime, exporter]):
            self.outputs(runtime, provider, source, self.artifact(exporter, source), BATCHES[:1])

    def refusal(self, variant: str, task: Task, artifact: Path, target: Path) -> str | None:
        """Write a variant of an artifact, or tell why it is refused."""
        try:
            self.workers.transform(variant=variant, task=task.name, source=str(artifact), target=str(target))
        except ChildError as error:
            if error.kind != "refused":
                raise
            return f"refused: {error.reason}"
        return None

    def reference(self, task: Task) -> dict[str, np.ndarray]:
        """What the first of the task's frameworks gives for its own form of the model."""
        source = task.sources[0]
        exporter = next(name for name in loading.find("exporters") if own_form(catalog.exporter(name)))
        runtime = openers(catalog.exporter(exporter).format(source))[0]
        return self.outputs(runtime, catalog.runtime(runtime).providers()[0], source, self.artifact(exporter, source))


def own_form(exporter: Exporter) -> bool:
    return not exporter.sources


def openers(artifact_format: str) -> list[str]:
    """Runtimes that open a format and can work here; ways out, which sweeps list for few models, come last."""
    task = catalog.task(FRAMEWORK_FREE)
    known = {name: catalog.runtime(name) for name in loading.find("runtimes")}
    names = [name for name, one in known.items() if one.scores and {"*", artifact_format} & set(one.formats)]
    names.sort(key=lambda name: known[name].stands_in_for(task) is not None)
    usable = [name for name in names if catalog.runtime(name).skip() is None]
    if not usable:
        pytest.skip(f"no runtime here opens {artifact_format}")
    return usable


def drift(outputs: dict[str, np.ndarray], reference: dict[str, np.ndarray]) -> float:
    """Largest absolute error over the reference's largest magnitude, of any output at any batch size."""
    assert outputs.keys() == reference.keys()
    errors = []
    for name, expected in reference.items():
        assert outputs[name].shape == expected.shape, name
        errors.append(float(np.abs(outputs[name] - expected).max() / np.abs(expected).max()))
    return float(np.max(errors))  # unlike max(), it keeps a NaN


def missing_after(extras: Sequence[str], requires: Sequence[str]) -> set[str]:
    """Those of some packages that extras of this distribution do not install, by what is installed here."""
    installed: set[tuple[str, str]] = set()
    waiting = [("inferometer", extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in installed:
            continue
        installed.add((name, extra))
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            for each in map(Requirement, importlib.metadata.requires(name) or ()):
                if each.marker is None or each.marker.evaluate({"extra": extra}):
                    waiting += [(canonicalize_name(each.name), other) for other in ("", *each.extras)]
    names = {name for name, _ in installed}
    providers = importlib.metadata.packages_distributions()
    tops = {package: package.partition(".")[0] for package in requires if not package.startswith(NPM)}
    return {
        package for package, top in tops.items() if names.isdisjoint(map(canonicalize_name, providers.get(top, [top])))
    }


def skip_without(plugin: Plugin) -> None:
    node.need(plugin)
    if (reason := plugin.skip()) is not None:
        pytest.skip(f"{plugin.name}: {reason}")
    if plugin.runs_apart():
        pytest.skip(f"{plugin.name} runs in an environment of its own, which a thorough test makes")


def is_here(plugin: Plugin) -> bool:
    """Whether a plugin works in this environment."""
    return plugin.skip() is None and not plugin.runs_apart()


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory, framework_worker: Workers) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("workshop"), framework_worker)


@pytest.mark.parametrize(("kind", "name"), FOUND)
def test_declares_what_it_is(kind: str, name: str) -> None:
    plugin = LOADERS[kind](name)
    assert plugin.name == name
    assert plugin.path == loading.find(kind)[name]
    assert name == (plugin.path.parent.name if kind in loading.ENTRY else plugin.path.stem)
    module = sys.modules[type(plugin).__module__]
    for item in (module, type(plugin)):
        first = (vars(item).get("__doc__") or "").strip().partition("\n\n")[0]
        assert first.endswith("."), f"the docstring of {item} must begin with a sentence"
    own = [package for package in plugin.requires if not package.startswith(NPM)]
    assert all(part.isidentifier() for package in own for part in package.split("."))
    if plugin.extra is not None and not plugin.isolated:
        assert missing_after(plugin.extra.split(","), plugin.requires) == set()


@pytest.mark.parametrize(("kind", "name"), [case for case in FOUND if case[0] != "models"])
def test_requires_every_package_that_it_imports(kind: str, name: str) -> None:
    plugin = LOADERS[kind](name)
    if (told := plugin_child.lacking(name, plugin.path.read_text(), plugin.requires)) is not None:
        pytest.fail(told, pytrace=False)


@pytest.mark.parametrize(("kind", "name"), FOUND)
def test_says_what_is_missing_and_how_to_mend_it(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = LOADERS[kind](name)
    reason = plugin.skip()
    assert reason is None or reason.strip()
    monkeypatch.setattr(type(plugin), "requires", (*plugin.requires, "no_such_package"))
    monkeypatch.setattr(type(plugin), "isolated", ())
    reason = plugin.skip()
    assert reason is not None
    assert "no_such_package" in reason
    assert "pip install" in reason


def test_listing_plugins_imports_no_package() -> None:
    code = f"""
import sys
before = set(sys.modules)
from bench.api import loading
from bench.plugins import catalog
for kind, load in {{"exporters": catalog.exporter, "runtimes": catalog.runtime, "models": catalog.task}}.items():
    for name in loading.find(kind):
        plugin = load(name)
        plugin.skip()
        if kind == "runtimes":
            plugin.providers(), plugin.environment(1)
catalog.variants()
names = [name for name in sys.modules if name not in before]
assert len([name for name in names if name.startswith("bench_plugin_")]) >= {len(FOUND)}
print(*[name for name in names if "site-packages" in (getattr(sys.modules[name], "__file__", None) or "")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.xdist_group("exports")
@pytest.mark.slow(seconds=3)
@pytest.mark.parametrize(("exporter", "source", "every"), twice(exports(), compiling_exporters()))
def test_export_gives_the_reference_outputs(exporter: str, source: str, every: bool, workshop: Workshop) -> None:
    """In one runtime that opens it, or in every one."""
    plugin, task = catalog.exporter(exporter), task_for(source)
    assert task is not None
    skip_without(plugin)
    artifact = workshop.artifact(exporter, source)
    assert {path.name for path in artifact.parent.iterdir()} == {artifact.name, cache.ENTRY}, "an artifact is one file"
    reference = workshop.reference(task)
    for runtime in openers(plugin.format(source))[: None if every else 1]:
        provider = catalog.runtime(runtime).providers()[0]
        if (runtime, exporter) in NOT_OPENED:
            workshop.check_not_opened(runtime, exporter, source)
            continue
        batches = BATCHES[:1] if workshop.takes_one(exporter, source) else BATCHES
        outputs = workshop.outputs(runtime, provider, source, artifact, batches)
        expected = {name: array for name, array in reference.items() if name in outputs}
        if plugin.lossy:
            most = catalog.task(TaskName.parse(task.name).model).max_metric_loss
            assert metric_loss(task, outputs, expected) <= most, runtime
        else:
            assert drift(outputs, expected) <= task.close, runtime


@pytest.mark.framework
@pytest.mark.xdist_group("exports")  # which it changes, and whose references it has
@pytest.mark.slow(seconds=2)
@pytest.mark.parametrize(("name", "every"), variants())
def test_variant_keeps_interface_and_outputs(name: str, every: bool, workshop: Workshop, tmp_path: Path) -> None:
    variant = catalog.variant(name).variant
    skip_without(variant)
    tried, refusals = 0, []
    graphs: set[str] = set()
    for case in exports():
        if tried and not every:
            break  # it is tried on one export that it does not refuse
        exporter, source = case.values
        file_format, task = catalog.exporter(exporter).format(source), task_for(source)
        assert task is not None
        if file_format not in variant.formats or not is_here(catalog.exporter(exporter)):
            continue
        target = tmp_path / f"{exporter}-{source}" / f"model.{file_format}"
        target.parent.mkdir()
        artifact = workshop.artifact(exporter, source)
        if file_format == "onnx":
            if (graph := canonical_digest(artifact)) in graphs:
                continue  # two exporters may write the same
            graphs.add(graph)
        before = artifact.read_bytes()
        refusal = workshop.refusal(name, task, artifact, target)
        assert artifact.read_bytes() == before, "a variant leaves its source alone"
        if refusal is not None:
            assert list(target.parent.iterdir()) == [], "what is refused leaves no file"
            refusals.append(refusal)
            continue
        tried += 1
        assert list(target.parent.iterdir()) == [target], "an artifact is one file"
        if file_format == "onnx":
            check_kept(target, artifact, task, may_fix=variant.freezes)
        runtime = openers(file_format)[0]
        provider = catalog.runtime(runtime).providers()[0]
        outputs = workshop.outputs(runtime, provider, source, target)
        if catalog.exporter(exporter).lossy:
            reference = workshop.outputs(runtime, provider, source, artifact)
        else:
            reference = workshop.reference(task)
        if variant.lossy:
            assert all(np.isfinite(array).all() for array in outputs.values())
            # The first option stands for its file in sweeps; what another loses is for verifying to say.
            if catalog.variant(name).option == variant.options[0]:
                assert (
                    metric_loss(task, outputs, reference)
                    <= catalog.task(TaskName.parse(task.name).model).max_metric_loss
                )
        else:
            assert drift(outputs, reference) <= task.close
    if not tried:
        pytest.skip("; ".join(refusals) or f"nothing here exports {' or '.join(variant.formats)}")


def metric_loss(task: Task, outputs: dict[str, np.ndarray], reference: dict[str, np.ndarray]) -> float:
    """How much worse the metric of the task at its own sizes is than the reference's, on the largest batch."""
    own = catalog.task(TaskName.parse(task.name).model)
    batch = max(int(name.partition("/")[0]) for name in outputs)
    targets = targets_of(own.name)
    targets = [targets[at % len(targets)] for at in range(batch)]
    if own.name != task.name:  # the outputs are corners
        height, width = outputs[f"{batch}/hr"].shape[2:]
        targets = [whole_HW[:height, :width] for whole_HW in targets]
    values = []
    for arrays in (reference, outputs):
        named = {spec.name: arrays[f"{batch}/{spec.name}"] for spec in own.outputs}
        values.append(own.metrics(named, targets)[own.metric_name])
    loss = values[0] - values[1]
    return loss if own.higher_is_better else -loss


@functools.cache
def targets_of(task: str) -> Sequence[Any]:
    """The first targets of a task's test split, as many as the largest batch has."""
    targets = catalog.task(task).samples("test").targets
    assert targets is not None
    return targets[: max(BATCHES)]


@pytest.mark.xdist_group("exports")
@pytest.mark.slow(seconds=1)
@pytest.mark.parametrize(
    ("name", "every"),
    twice(
        [
            pytest.param(name, id=name, marks=[pytest.mark.framework] if catalog.runtime(name).requires else [])
            for name in loading.find("runtimes")
        ],
        compiling_runtimes(),
    ),
)
def test_runtime_opens_every_format_on_every_provider(name: str, every: bool, workshop: Workshop) -> None:
    """One export of a format that it opens, on every provider of an engine; or every export, in all batches."""
    plugin = catalog.runtime(name)
    skip_without(plugin)
    assert plugin.providers()
    if not plugin.scores:
        assert plugin.generates
        pytest.skip("it only generates text: its own test has it generate")
    tried = 0
    for case in exports():
        if tried and not every:
            break
        exporter, source = case.values
        task = task_for(source)
        assert task is not None
        skipped = not is_here(catalog.exporter(exporter))
        if skipped or not {"*", catalog.exporter(exporter).format(source)} & set(plugin.formats):
            continue
        if (name, exporter) in NOT_OPENED:
            workshop.check_not_opened(name, exporter, source)
            continue
        artifact = workshop.artifact(exporter, source)
        is_first = openers(catalog.exporter(exporter).format(source))[0] == name  # its exports are tested with it, too
        in_all = (every or is_first) and not workshop.takes_one(exporter, source)
        batches = BATCHES if in_all else BATCHES[:1]
        # One exporter is enough for the providers that are not the default.
        is_tried = tried or not (every or is_first)
        for provider in plugin.providers()[:1] if is_tried else plugin.providers():
            outputs = workshop.outputs(name, provider, source, artifact, batches)
            for batch in batches:
                for spec in task.outputs:
                    array = outputs[f"{batch}/{spec.name}"]
                    assert array.dtype.name == spec.dtype
                    assert array.shape[0] == batch
                    assert len(array.shape) == len(spec.shape)
                    assert all(
                        isinstance(dim, str) or size == dim for size, dim in zip(array.shape, spec.shape, strict=True)
                    )
            loss, own = (
                metric_loss(task, outputs, workshop.reference(task)),
                catalog.task(TaskName.parse(task.name).model),
            )
            told = f"outputs of {name}: {own.metric_name} is worse than the reference's by {loss:.3g}"
            assert loss <= own.max_metric_loss, told
        tried += 1
    if not tried:
        pytest.skip(f"nothing here exports {' or '.join(plugin.formats)}")


@pytest.mark.parametrize("name", list(loading.find("runtimes")))
def test_runtime_refuses_an_unknown_provider(name: str) -> None:
    with pytest.raises(InputError, match="no-such-provider"):
        catalog.runtime(name).check_provider("no-such-provider")
