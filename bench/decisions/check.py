"""Regression guard: a pinned artifact is measured again, interleaved with the new one, and the two are compared.

A stored figure depends on the machine of that day; this comparison does not. Both artifacts run on today's packages, so
it detects a change of the artifact: of the model, its export, its optimizers and quantizers. Where the pinned artifact
runs with a pinned version of its runtime, in an environment of its own, a change of the runtime is detected, too.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path

from bench.api import Task, cache
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, BenchError, ChildError, InputError
from bench.api.loss_units import AllowedLoss
from bench.api.names import PluginName, ProviderName
from bench.decisions import deployment
from bench.measure import comparison
from bench.measure.block import Method, Result
from bench.measure.goal import REGRESSION, Goal
from bench.measure.limits import Limits
from bench.measure.scratch import Scratch
from bench.measure.stats import Estimate
from bench.pipeline import prepare, quality, remarks, run_split, sweeps, versions
from bench.pipeline.environment_request import Asked
from bench.pipeline.flow import Verified
from bench.pipeline.measuring import measure_pairs
from bench.plugins import catalog
from bench.records import chance
from bench.records.lines import Quality
from bench.tasks import adopt
from bench.tasks.metrics import Accuracy, Rmse

TOLERANCE = 0.02
"""Largest share by which the new artifact may be slower, by default."""
_MIN_LAUNCHES = 3
MAX_LAUNCHES = 12
BUDGET_S = 120.0
_DEFAULT_OPTIONS = adopt.Options()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """Two artifacts for one task, verified in the same way.

    Attributes:
        pinned: the artifact to compare with.
        new: the artifact to check; the outputs of the pinned artifact are the reference for its quality.
        differing: by the name of an output, how far the new artifact's differs from the pinned one's: the power of the
            error over that of the output, or the share of discrete values that differ.
        notes: lines to show, such as the sizes that were guessed.
    """

    pinned: Verified
    new: Verified
    differing: Mapping[str, float] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """How the new artifact of a pair compares with the pinned one.

    Attributes:
        verdict: `regression` (slower by more than the tolerance), `fine` (not slower by more), or `undecided`.
        ratio: latency of the new artifact over the pinned one's.
        control: the same ratio for a second copy of the pinned artifact: how far it goes where nothing differs; None
            for fewer launches than an alarm needs, see `measure.model.LEAST_PAIRS`.
        num_launches: launches of the new artifact that were compared.
        new_ns: steady samples of the new artifact, in nanoseconds.
        quality: quality of the new artifact's outputs, with the pinned artifact's outputs as the reference.
        max_metric_loss: the most that may be lost of the metric on the samples, in the unit of its loss.
        fault: why the outputs are wrong; None where they are not broken and lose no more of the metric than is allowed.
            The loss on the samples is judged, not its bound for other samples: a guard asks whether the artifact
            changed, which the outputs of both for the same samples tell for sure, and with few samples even equal
            outputs have a bound above any limit. Outputs that the metric does not judge may differ by as much.
    """

    verdict: str
    ratio: Estimate
    control: Estimate | None
    num_launches: int
    new_ns: tuple[int, ...]
    quality: Quality
    max_metric_loss: float
    fault: str | None = None

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong with the outputs."""
        return self.fault is None

    @property
    def fidelity(self) -> str:
        """How close the outputs are to the pinned artifact's outputs: see `Quality.fidelity`."""
        return self.quality.fidelity

    @property
    def passed(self) -> bool:
        """Whether the new artifact is neither slower by more than the tolerance nor wrong."""
        return self.verdict != REGRESSION and self.is_right


def pair_of_files(
    pinned: Path,
    new: Path,
    *,
    options: adopt.Options = _DEFAULT_OPTIONS,
    runtime: str | None = None,
    provider: str | None = None,
    batch: int = 1,
    threads: int = 1,
    pinned_with: Asked | None = None,
    may_be_large: bool = False,
    limits: Limits,
) -> Pair:
    """Prepare and verify two model files of one format, with the same inputs and outputs.

    Args:
        pinned: the file to compare with.
        new: the file to check.
        options: the options that describe both models, besides their paths.
        runtime: name of the runtime; the usual runtime of the format by default.
        provider: name of the runtime's provider; its first provider by default.
        batch: number of samples in an inference.
        threads: number of threads.
        pinned_with: versions that the pinned artifact runs with; None for those that are installed.
        may_be_large: whether downloads of gigabytes are allowed.
        limits: time and memory of the child processes.

    Raises:
        InputError: a file cannot be used, or the files differ in format, inputs or outputs.
        ArtifactError: an artifact does not run.
    """
    before = adopt.adopt(pinned, options, limits=limits)
    pinned_task = catalog.task(before.name)
    pinned_cell = cell_of(pinned_task.name, runtime, provider, batch, threads)
    pinned_artifact = prepare.artifact_of(pinned_cell, limits)
    ports = [(spec.name, spec.dtype) for spec in (*pinned_task.inputs, *pinned_task.outputs)]
    adopted = adopt.adopt(new, _as_judged(options, pinned_task), limits=limits, beside=before.name)
    task = catalog.task(adopted.name)
    if [(spec.name, spec.dtype) for spec in (*task.inputs, *task.outputs)] != ports:
        raise InputError(f"{new} has other inputs or outputs than {pinned}")
    if (labels := getattr(task, "labels", ())) != (pinned_labels := getattr(pinned_task, "labels", ())):
        raise InputError(f"{new} says the classes {labels}, and {pinned} says {pinned_labels}: they are no pair")
    cell = cell_of(task.name, runtime, provider, batch, threads)
    artifact = prepare.artifact_of(cell, limits)
    if artifact.format != pinned_artifact.format:
        raise InputError(
            f"{new} is {artifact.format}, and {pinned} is {pinned_artifact.format}; a pair has one format",
            fix="name two files of one format; `bench run --model FILE` measures any alone",
        )
    notes = [note for note in adopted.notes if note in before.notes]  # such as sizes that were guessed for both
    notes += [f"{pinned}: {note}" for note in before.notes if note not in notes]
    notes += [f"{new}: {note}" for note in adopted.notes if note not in notes]
    verified_pair = pair(pinned_cell, pinned_artifact, cell, artifact, limits, pinned_with, may_be_large=may_be_large)
    return dataclasses.replace(verified_pair, notes=(*notes, *verified_pair.notes))


def _as_judged(options: adopt.Options, task: Task) -> adopt.Options:
    """The options for a new model, whose outputs are judged by the rule that was chosen for the pinned one.

    Otherwise a model that gives logits instead of probabilities would be judged by another threshold.
    """
    if isinstance(task, Accuracy):
        metric = "accuracy" if task.threshold is None else f"accuracy@{task.threshold!r}"
        return dataclasses.replace(options, metric=metric, output=task.judged)
    if isinstance(task, Rmse):
        return dataclasses.replace(options, metric="rmse", output=task.judged)
    return options


def pair_of_pick(folder: Path, *, pinned_with: Asked | None = None, may_be_large: bool = False, limits: Limits) -> Pair:
    """Prepare and verify the artifact that `bench pick` saved, and the artifact that the same cell has now.

    Args:
        folder: the folder that `bench pick` saved.
        pinned_with, may_be_large: see `pair_of_files`.
        limits: time and memory of the child processes.

    Raises:
        InputError: the folder is not a saved pick, or its task is no longer here.
        ArtifactError: the artifact can no longer be made, or does not run.
    """
    recipe = deployment.read(folder)
    recipe.task()
    cell = recipe.cell
    if (reason := catalog.skip_reason(cell)) is not None:
        raise InputError(f"{cell} cannot run here: {reason}")
    if not recipe.artifact.is_file() or cache.file_digest(recipe.artifact) != recipe.sha256:
        raise InputError(f"{recipe.artifact} is not the file that was picked; `bench pick` saves it again")
    size_bytes = recipe.artifact.stat().st_size
    pinned = Artifact(path=recipe.artifact, format=recipe.format, sha256=recipe.sha256, size_bytes=size_bytes)
    new = prepare.artifact_of(cell, limits)
    return pair(cell, pinned, cell, new, limits, pinned_with, may_be_large=may_be_large)


def pair(
    pinned_cell: Cell,
    pinned: Artifact,
    cell: Cell,
    new: Artifact,
    limits: Limits,
    pinned_with: Asked | None = None,
    *,
    may_be_large: bool = False,
) -> Pair:
    """Verify that both artifacts run, and judge the outputs of the new one against those of the pinned one.

    Both run the samples of the new cell's task. Each is opened as its own cell says: code in another file is another
    model, even with the same weights.

    Raises:
        InputError: the versions for the pinned artifact do not concern its runtime.
        ArtifactError: an artifact does not run; the message says which.
    """
    before = pinned_cell if pinned_with is None else _with(pinned_cell, pinned_with, may_be_large)
    inputs = prepare.inputs_of(catalog.task(cell.task), limits)
    with Scratch() as folder:
        outputs = Path(folder, "outputs.npz")

        def verified(
            key: str, opened: Cell, artifact: Artifact, expected: Path | None, target: Path | None
        ) -> tuple[Verified, Mapping[str, float]]:
            try:
                judge = None if opened.task == cell.task else cell
                judged, shares = run_split.beside(opened, artifact, expected, limits, save_outputs=target, judge=judge)
            except ChildError as error:
                raise ArtifactError(f"the {key} artifact does not run: {error.reason}") from error
            judged = remarks.beside_signal(judged, catalog.task(cell.task))
            return Verified(cell=opened, artifact=artifact, key=key, quality=judged, inputs=inputs), shares

        first, _ = verified("pinned", before, pinned, None, outputs)
        second, differing = verified("new", cell, new, outputs, None)
        return Pair(pinned=first, new=second, differing=differing, notes=_useless(first.quality))


def _with(cell: Cell, request: Asked, may_be_large: bool) -> Cell:
    """The cell with other versions of its runtime's packages."""
    changed = versions.changed(cell, request, may_be_large)
    if changed is None or changed.artifact_path != cell.artifact_path:  # then it made the artifact
        raise InputError(f"{cell.runtime} does not use {request.text}; the guard compares versions of the runtime")
    return changed


def cell_of(task: str, runtime: str | None, provider: str | None, batch: int, threads: int) -> Cell:
    """The task's plain native cell, on the usual runtime of its format unless another runtime is named.

    Raises:
        InputError: no such cell can run here.
    """
    reasons = []
    for cell in sweeps.baselines(task, batch, threads):
        name = cell.runtime if runtime is None else PluginName.parse(runtime)
        opener = catalog.runtime(name)
        at = ProviderName.parse(provider or opener.providers()[0])
        chosen = dataclasses.replace(cell, runtime=name, provider=at)
        reason = catalog.skip_reason(chosen)
        if reason is None and (artifact_format := catalog.format_of(cell)) not in opener.formats:
            reason = f"{name} opens {' and '.join(opener.formats)}, not {artifact_format}"
        if reason is None:
            return chosen
        reasons.append(reason)
    raise InputError(f"{task} cannot run here: {'; '.join(reasons) or 'no runtime opens it'}")


def _useless(judged: Quality) -> tuple[str, ...]:
    """A warning that the metric cannot tell right outputs from wrong ones, where that is so."""
    said = chance.note(judged)
    return () if said is None else (f"WARNING: {said}: the metric cannot tell whether the new artifact is right",)


def goal(*, tolerance: float = TOLERANCE, max_launches: int = MAX_LAUNCHES, budget_s: float = BUDGET_S) -> Goal:
    """A goal that is met as soon as it is clear whether the new artifact is slower by more than the tolerance."""
    few = min(_MIN_LAUNCHES, max_launches)
    return Goal(tolerance=tolerance, min_launches=few, max_launches=max_launches, budget_s=budget_s)


def measure(pair: Pair, goal: Goal, method: Method, *, max_metric_loss: AllowedLoss | None = None) -> Outcome:
    """Launch both artifacts side by side until it is clear whether the new one is slower by more than the tolerance.

    Args:
        pair: the two artifacts.
        goal: a goal with a tolerance.
        method: how blocks are measured.
        max_metric_loss: the most that may be lost of the pinned artifact's metric; by default 1 %, or 0.1 dB.

    Raises:
        BenchError: an artifact fails while it is measured.
    """
    assert goal.tolerance is not None
    allowed = max_metric_loss or AllowedLoss()

    def keep(result: Result) -> None:
        for failure in result.failures:
            reason = failure.error.reason
            raise BenchError(f"the {failure.subject.key} artifact failed: {reason}") from failure.error

    # A budget too short for any launch still buys the first.
    for target in (goal, dataclasses.replace(goal, max_launches=1, min_launches=1, budget_s=None)):
        (group,) = measure_pairs([(pair.pinned, pair.new)], method, target, keep=keep, cut_blocks=False)
        (new,) = group.ledgers
        if new.launches:
            break
    (fitted,) = comparison.fit([group.launched()])
    difference = fitted.against_baseline(new.name)
    assert difference.ratio is not None
    return Outcome(
        verdict=goal.regression(difference),
        ratio=difference.ratio,
        control=difference.control.ratio() if difference.control else None,
        num_launches=difference.num_launches,
        new_ns=tuple(sample for launch in new.launches for sample in launch.samples_ns),
        quality=pair.new.quality,
        max_metric_loss=allowed.of(pair.new.quality.loss_unit),
        fault=fault_of(pair, max_metric_loss=allowed),
    )


def fault_of(pair: Pair, *, max_metric_loss: AllowedLoss) -> str | None:
    """Why the outputs of the new artifact are wrong; None where they are not.

    Outputs that the metric does not judge, and all of them where it tells nothing, may differ from the pinned
    artifact's by as large a share as may be lost of the metric, as they may without targets.
    """
    judged = pair.new.quality
    if judged.fidelity == quality.BROKEN:
        return judged.reason or "they are broken"
    if judged.fidelity == quality.EXACT:
        return None
    name, lost = judged.metric_name, judged.metric_loss
    task = catalog.task(pair.new.cell.task)
    if not isinstance(task, (Accuracy, Rmse)):
        if lost is None:
            return f"how much of {name} is lost is no number, so that the outputs are equal or wrong"
        return f"too much of {name} is lost" if lost > max_metric_loss.of(judged.loss_unit) else None
    if lost is not None and lost > max_metric_loss.of(judged.loss_unit):
        return f"too much of {name} is lost"
    is_useless = lost is None or bool(_useless(pair.pinned.quality))
    unjudged = {key: share for key, share in pair.differing.items() if is_useless or key != task.judged}
    if judged.fidelity == quality.CLOSE:  # a tolerance is that of numbers: classes and indices that are close differ
        unjudged = {
            spec.name: unjudged[spec.name]
            for spec in task.outputs
            if spec.name in unjudged and "float" not in spec.dtype
        }
    worst = max(unjudged, key=lambda key: unjudged[key], default=None)
    if worst is None:
        is_unknown = lost is None and judged.fidelity != quality.CLOSE
        return f"how much of {name} is lost is no number, and its outputs cannot be compared" if is_unknown else None
    share = math.sqrt(unjudged[worst])
    if share <= max_metric_loss.share:
        return None
    why = f"{name} tells nothing here" if worst == task.judged else f"{name} does not judge it"
    allowed = f"{percent(100 * max_metric_loss.share)} is allowed (--max-metric-drop)"
    return f"output {worst!r} differs by {percent(100 * share)} of its values, {allowed}, and {why}"


def percent(value: float) -> str:
    """A number of per cent with two digits, or with all digits before its point."""
    return f"{value:.2g} %" if value < 100 else f"{value:,.0f} %"
