"""Regression guard: a pinned artifact is measured again, interleaved with the new one, and the two are compared.

What a stored figure says depends on the machine of that day; this does not. Both artifacts run on today's packages, so
a change of the artifact is what it finds: of the model, its export, its optimizers and quantizers.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from pathlib import Path

from bench.api import cache
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, BenchError, ChildError, InputError
from bench.decisions import deployment
from bench.measure import comparison as compare
from bench.measure import stats
from bench.measure.block import Method, Subject, run_block
from bench.measure.launch import Launch
from bench.measure.limits import Limits
from bench.measure.stats import Estimate
from bench.pipeline import prepare, quality, sweeps, verify
from bench.plugins import catalog
from bench.records.lines import Quality
from bench.tasks import adopt

REGRESSION, FINE, UNDECIDED = "regression", "fine", "undecided"
NOTHING_SAID = adopt.Options()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Goal:
    """When a pair has been measured enough.

    Attributes:
        tolerance: how much slower the new artifact may be, as a share;
        max_metric_loss: and which share of the pinned one's metric may be lost.
        min_launches: fewest launches of each;
        max_launches: and most, when nothing can be said before.
        budget_s: seconds after which no further launch is begun.
    """

    tolerance: float = 0.02
    max_metric_loss: float = 0.01
    min_launches: int = 3
    max_launches: int = 12
    budget_s: float = 120.0

    def looks(self) -> tuple[int, ...]:
        """Numbers of launches after which to look whether it is clear: each look may be wrong, so they are few."""
        found = []
        launches = self.min_launches
        while launches < self.max_launches:
            found.append(launches)
            launches *= 2
        return (*found, self.max_launches)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """Two artifacts for one task, to be run in the same way.

    Attributes:
        quality: of the new one's outputs with the pinned one's as reference: see `quality.judge`.
        notes: lines to say, such as of sizes that were guessed.
    """

    pinned: Subject
    new: Subject
    quality: Quality
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What is known of a pair.

    Attributes:
        verdict: `regression` (slower by more than the tolerance), `fine` (not slower by more), or `undecided`.
        ratio: latency of the new artifact over the pinned one's.
        control: the same of a second copy of the pinned one: how far nothing at all seems to go.
        new_ns: steady inferences of the new artifact;
        pinned_ns: and of the pinned one.
        fidelity: of the new one's outputs to the pinned one's: `exact`, `close`, `drifted` or `broken`; and why.
        metric_loss: share of the pinned one's metric that is lost; without targets, the error's share of the signal.
        is_right: whether they are not broken, and lose no more than is allowed.
    """

    verdict: str
    ratio: Estimate
    control: Estimate
    num_launches: int
    new_ns: tuple[int, ...]
    pinned_ns: tuple[int, ...]
    fidelity: str
    reason: str | None
    max_abs_error: float | None
    metric_loss: float | None
    is_right: bool

    @property
    def passed(self) -> bool:
        """Whether it is neither slower for sure nor wrong."""
        return self.verdict != REGRESSION and self.is_right

    def __str__(self) -> str:
        """One line, such as `1.003 [0.991, 1.015] times the pinned one's latency after 3 launches: fine; exact`."""
        ratio = self.ratio
        said = f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}] times the pinned one's latency"
        launches = f"after {self.num_launches} launch{'es' if self.num_launches > 1 else ''}"
        why = f" ({self.reason})" if self.reason else ""
        if self.fidelity == quality.DRIFTED and self.metric_loss is not None:
            change = "worse" if self.metric_loss >= 0 else "better"
            why = f", {100 * abs(self.metric_loss):.2g} % {change}" + ("" if self.is_right else ": too much")
        return f"{said} {launches}: {self.verdict}; outputs {self.fidelity}{why}"


def pair_of_files(
    pinned: Path,
    new: Path,
    *,
    options: adopt.Options = NOTHING_SAID,
    runtime: str | None = None,
    provider: str | None = None,
    batch: int = 1,
    threads: int = 1,
    limits: Limits,
) -> Pair:
    """Two model files of one kind, such as two `.onnx` files, with the same inputs and outputs.

    Args:
        runtime: its plugin's name; the usual one of the format by default.
        provider: of the runtime; its default by default.

    Raises:
        InputError: one cannot be used, or they are not of one kind.
        ArtifactError: one does not run.
    """
    pinned_task = catalog.task(adopt.adopt(pinned, options).name)
    pinned_artifact = prepare.artifact_of(_cell(pinned_task.name, runtime, provider, batch, threads), limits)
    ports = [(spec.name, spec.dtype) for spec in (*pinned_task.inputs, *pinned_task.outputs)]
    adopted = adopt.adopt(new, options)  # the last to be adopted is found where both have a name
    task = catalog.task(adopted.name)
    if [(spec.name, spec.dtype) for spec in (*task.inputs, *task.outputs)] != ports:
        raise InputError(f"{new} has other inputs or outputs than {pinned}")
    cell = _cell(task.name, runtime, provider, batch, threads)
    artifact = prepare.artifact_of(cell, limits)
    if artifact.format != pinned_artifact.format:
        raise InputError(f"{new} is {artifact.format}, and {pinned} is {pinned_artifact.format}")
    return dataclasses.replace(pair(cell, pinned_artifact, artifact, limits), notes=adopted.notes)


def pair_of_pick(folder: Path, *, limits: Limits) -> Pair:
    """What `bench pick` saved in a folder, and what is made of the same cell now.

    Raises:
        InputError: the folder is not one, or its task is not here.
        ArtifactError: the artifact cannot be made any more, or does not run.
    """
    recipe = deployment.read(folder)
    recipe.task()
    cell = recipe.cell
    if (reason := catalog.skip_reason(cell)) is not None:
        raise InputError(f"{cell} cannot run here: {reason}")
    if not recipe.artifact.is_file() or cache.file_digest(recipe.artifact) != recipe.sha256:
        raise InputError(f"{recipe.artifact} is not the file that was picked; `bench pick` saves it again")
    pinned = Artifact(
        path=recipe.artifact,
        format=recipe.format,
        sha256=recipe.sha256,
        size_bytes=recipe.artifact.stat().st_size,
        canonical=None,
        num_params=None,
        info={},
    )
    return pair(cell, pinned, prepare.artifact_of(cell, limits), limits)


def pair(cell: Cell, pinned: Artifact, new: Artifact, limits: Limits) -> Pair:
    """Check that both run, and what became of the outputs.

    Raises:
        ArtifactError: one does not run; the message says which.
    """
    inputs = prepare.inputs_of(catalog.task(cell.task), limits)
    with tempfile.TemporaryDirectory() as folder:
        expected = Path(folder, "outputs.npz")
        judged = {}
        for name, artifact in (("pinned", pinned), ("new", new)):
            is_first = name == "pinned"
            try:
                judged[name] = verify.verify(
                    cell,
                    artifact,
                    None if is_first else expected,
                    limits,
                    save_outputs=expected if is_first else None,
                )
            except ChildError as error:
                raise ArtifactError(f"the {name} artifact does not run: {error.reason}") from error
    subjects = {
        name: Subject(cell=cell, key=name, artifact=artifact, inputs=inputs, rss_bytes=judged[name].rss_bytes)
        for name, artifact in (("pinned", pinned), ("new", new))
    }
    return Pair(pinned=subjects["pinned"], new=subjects["new"], quality=judged["new"])


def _cell(task: str, runtime: str | None, provider: str | None, batch: int, threads: int) -> Cell:
    """The task's own plain cell, on the usual runtime of its format unless another is named."""
    reasons = []
    for cell in sweeps.baselines(task, batch, threads):
        name = runtime or cell.runtime
        opener = catalog.runtime(name)
        chosen = dataclasses.replace(cell, runtime=name, provider=provider or opener.providers()[0])
        reason = catalog.skip_reason(chosen)
        if reason is None and (made := catalog.exporter(cell.exporter).format(cell.source)) not in opener.formats:
            reason = f"{name} opens {' and '.join(opener.formats)}, not {made}"
        if reason is None:
            return chosen
        reasons.append(reason)
    raise InputError(f"{task} cannot run here: {'; '.join(reasons) or 'no runtime opens it'}")


def method(limits: Limits) -> Method:
    """More passes than a sweep takes: there are three workers only, and to start them takes longer than to run them."""
    return Method(max_passes=240, max_s=12.0, limits=limits)


def measure(found: Pair, goal: Goal, method: Method) -> Outcome:
    """Launch both side by side until it is clear whether the new one is slower by more than the tolerance.

    Raises:
        BenchError: one of them fails while it is measured.
    """
    pinned: list[Launch] = []
    new: list[Launch] = []
    start = time.monotonic()
    verdict = UNDECIDED
    while len(new) < goal.max_launches and (not new or time.monotonic() - start < goal.budget_s):
        result = run_block(found.pinned, [found.new], method)
        if result.failures:
            failure = result.failures[0]
            raise BenchError(f"the {failure.subject.key} artifact failed: {failure.error.reason}") from failure.error
        for subject, launch in result.launches:
            (new if subject is found.new else pinned).append(launch)
        if len(new) in goal.looks():
            verdict = _verdict(compare.against_baseline(new, pinned), goal)
        if verdict != UNDECIDED:
            break
    comparison = compare.against_baseline(new, pinned)
    if verdict == UNDECIDED and len(new) >= goal.min_launches:  # when the time is up, the last look is now
        verdict = _verdict(comparison, goal)
    assert comparison.ratio is not None
    assert comparison.control is not None
    references = [launch for launch in pinned if launch.role == compare.REFERENCE]
    return Outcome(
        verdict=verdict,
        ratio=comparison.ratio,
        control=comparison.control,
        num_launches=comparison.num_launches,
        new_ns=_samples(new),
        pinned_ns=_samples(references),
        fidelity=found.quality.fidelity,
        reason=found.quality.reason,
        max_abs_error=found.quality.max_abs_error,
        metric_loss=found.quality.metric_loss,
        is_right=_is_right(found.quality, goal),
    )


def _is_right(judged: Quality, goal: Goal) -> bool:
    lost = judged.metric_loss
    return judged.fidelity != quality.BROKEN and (lost is None or lost <= goal.max_metric_loss)


def _verdict(comparison: compare.Comparison, goal: Goal) -> str:
    """Whether the whole interval lies on one side of what is tolerated, and of the noise of nothing at all.

    The interval is that of 95 % over all looks together (Bonferroni), so wider than the one that is shown.
    """
    assert comparison.effect is not None
    ratio, control = comparison.effect.ratio(stats.ALPHA / len(goal.looks())), comparison.control
    assert control is not None
    if ratio.low > max(1 + goal.tolerance, control.high, 1 + stats.NOISE_FLOOR):
        return REGRESSION
    return FINE if ratio.high < 1 + goal.tolerance else UNDECIDED


def _samples(launches: list[Launch]) -> tuple[int, ...]:
    return tuple(sample for launch in launches for sample in launch.samples_ns)
