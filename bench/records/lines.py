"""The lines of a result file, as typed values that are read from JSON and written to JSON."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import msgspec

from bench.api import features
from bench.api.artifact import Facts
from bench.api.errors import BenchError, ChildError
from bench.api.loss_units import SHARE, Unit
from bench.measure.launch import Count, Launch
from bench.records import error_location
from bench.records.forward_compat import Field
from bench.records.line_fault import Fault
from bench.records.metric_loss import Lost

SCHEMA = 2  # of the lines, and of the measuring code that fills them: raise it when old figures no longer compare
LONGEST_PATH = 2000
Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A number of bytes, operations or parameters."""


class Header(msgspec.Struct, frozen=True, kw_only=True, tag="cell", tag_field="kind"):
    """The first line: the cell of the file, and all that the cell's figures depend on.

    Attributes:
        schema: version of the lines, see `SCHEMA`; None in lines of the first versions.
        key: the file's name, a hash of all that a figure depends on.
        cell: path of the cell.
        machine: see `bench.measure.machine.describe`.
        versions: versions of the packages that ran the cell, by distribution; None for a distribution that is missing.
        subject: digests of the task and of its dataset (None where it has none).
        family: digest of the task at its own sizes; None in records of earlier versions.
        artifact: facts about the artifact; None where no artifact could be made.
        origin: the model of the hub that was measured, as `hf:org/name@commit:path`; of several commits that have the
            same files, the first that was measured; unset for a model that was not fetched.
        time: when the line was stored (ISO 8601).
    """

    schema: int | None = None
    key: str
    cell: Annotated[str, msgspec.Meta(max_length=LONGEST_PATH)]
    machine: Mapping[str, Any] = {}
    versions: Mapping[str, str | None] = {}
    subject: tuple[str | None, ...] = ()
    family: str | None = None
    artifact: Facts | None = None
    origin: Annotated[str, msgspec.Meta(max_length=LONGEST_PATH)] | msgspec.UnsetType = msgspec.UNSET
    time: str = ""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Static cost of one inference with the whole batch.

    Attributes:
        macs: multiply-accumulate operations; None where those of some node are unknown.
        weight_bytes: size of the weights.
    """

    macs: Size | None
    weight_bytes: Size


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an artifact that one provider runs.

    Attributes:
        nodes: number of nodes.
        macs_share: share of the MACs, between 0 and 1; None where it is unknown.
    """

    nodes: Count
    macs_share: Annotated[float, msgspec.Meta(ge=0)] | None = None


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the cache of keys and values of an engine that generates text.

    Attributes:
        cache_bytes_per_token: bytes of keys and values that a token adds.
        reserved_tokens: tokens for which the cache has room from the start; None where it grows with the text.
        weight_bytes: bytes of the weights as the engine keeps them, where it tells.
        pass_bytes: bytes of weights and cache that the pass that is timed reads at least.
        read_bytes_per_s: how fast the machine read a buffer of so many bytes with as many threads.
        is_decode: whether a decode step is timed, rather than a prefill.
    """

    cache_bytes_per_token: Size
    reserved_tokens: Size | None = None
    weight_bytes: Size | None = None
    pass_bytes: Size | None = None
    read_bytes_per_s: Annotated[float, msgspec.Meta(gt=0, le=1e30)] | None = None
    is_decode: bool = True


def _without_sizes(path: str) -> str:
    """The path of a cell without its batch and number of threads."""
    return path.rpartition("/")[0]


class Quality(msgspec.Struct, frozen=True, kw_only=True, tag="quality", tag_field="kind"):
    """The quality of a cell's outputs on the held-out split, and the facts that its runtime tells about the artifact.

    A figure is None where it has no meaning, is not finite, or was not recorded by the version that stored the line.

    Attributes:
        reference: path of the cell whose outputs count as right.
        reference_digest: digest of all that the reference's outputs depend on.
        judged_by: digest of the code that judged the outputs.
        verified_by: path of the cell whose outputs for the whole split were judged, where this cell differs from it in
            batch and threads alone and gave the same outputs for a few samples; unset where the outputs of this cell
            itself were judged.
        num_spot_samples: number of those few samples.
        num_samples: number of samples that were judged, the first in the drawn order of the split; unset for the whole
            split. The loss and the metrics are those of the reference on the whole split, and the mean difference on
            these samples.
        loss: mean loss of a sample.
        metrics: values by name; the name ends with the unit.
        metric_loss: what is lost of the reference's ranked metric, see `Task.metric_loss`.
        metric_loss_unit: unit of that; unset for a share.
        lost: what each sample loses of it, or why that cannot be told; unset in a line of an earlier version.
        convention: what the most that a sample can lose takes for granted, in a few words; unset where it follows from
            the metric.
        max_abs_error: largest absolute difference of an element from the reference's element.
        relative_error: largest absolute difference over the largest magnitude of the same output.
        reason: why the outputs are broken; None where they are not broken.
        metric_name: the key of the metric in `metrics` that ranks.
        higher_is_better: whether a higher value of that metric is better.
        judged_as: what the metric compares, in a few words; unset where the task does not say.
        chance: the ranked metric that an answer which ignores the inputs may reach on these samples; unset where
            unknown.
        fidelity: `exact`, `close`, `drifted` or `broken`.
        precision: precision of the computation, such as `float32`.
        num_params: parameters of the model as its framework counts them, or as they are counted in its file.
        repeated: which parameters the file stores more than once, None for none; unset in a line of an earlier version,
            whose counts of OpenVINO's files left out the bodies of loops.
        reference_params: parameters of the reference's model; unset in a line of an earlier version.
        input_shapes: shapes of the inputs of one inference, by input name.
        io_bytes: size of the inputs and outputs of one inference.
        rss_bytes: resident memory of the worker after the split; of several workers, that of the largest.
        cost: static cost; None where the artifact is no ONNX file, or cannot be analysed.
        placement: parts of the artifact by provider, see `Runtime.inspect`.
        untimed: why the times of this cell would say nothing, so that it has none; unset where it is timed.
        tick_ns: time between two values of the clock that times the inferences; unset where it is that of the worker.
        download_bytes: what a visitor of a page downloads to run it, compressed by gzip: the runtime and the artifact;
            unset for what runs in no page.
        about: what the session says about where it ran, by name; unset where it says nothing.
        generation: facts about an engine that generates text; unset for others.
        doubts: what the outputs leave open of a row that is otherwise sound, or what about the model may make them
            differ; None for nothing. In lines of an earlier version it is in `warning`.
        warning: what the runtime remarks on how it runs the artifact.
        time: when the line was stored (ISO 8601); None before that.
    """

    reference: str | None = None
    reference_digest: str | None = None
    judged_by: str | None = None
    verified_by: str | msgspec.UnsetType = msgspec.UNSET
    num_spot_samples: Count | msgspec.UnsetType = msgspec.UNSET
    num_samples: Count | msgspec.UnsetType = msgspec.UNSET
    loss: float | None = None
    metrics: Mapping[str, float | None] | None = None
    metric_loss: float | None = None
    metric_loss_unit: Unit | msgspec.UnsetType = msgspec.UNSET
    lost: Lost | str | msgspec.UnsetType = msgspec.UNSET
    convention: str | msgspec.UnsetType = msgspec.UNSET
    max_abs_error: Annotated[float, msgspec.Meta(ge=0)] | None = None
    relative_error: Annotated[float, msgspec.Meta(ge=0)] | None = None
    reason: str | None = None
    metric_name: str | None = None
    higher_is_better: bool = True
    judged_as: str | msgspec.UnsetType = msgspec.UNSET
    chance: float | msgspec.UnsetType = msgspec.UNSET
    fidelity: str
    precision: str | None = None
    num_params: Size | None = None
    repeated: str | msgspec.UnsetType | None = msgspec.UNSET
    reference_params: Size | msgspec.UnsetType | None = msgspec.UNSET
    input_shapes: Mapping[str, tuple[Size, ...]] | None = None
    io_bytes: Size | None = None
    rss_bytes: Size = 0
    cost: Cost | None = None
    placement: Mapping[str, Placed] | None = None
    generation: Generation | msgspec.UnsetType = msgspec.UNSET
    untimed: str | msgspec.UnsetType = msgspec.UNSET
    tick_ns: Size | msgspec.UnsetType = msgspec.UNSET
    download_bytes: Size | msgspec.UnsetType = msgspec.UNSET
    about: Mapping[str, str] | msgspec.UnsetType = msgspec.UNSET
    doubts: str | None = None
    warning: str | None = None
    time: str | None = None

    @property
    def loss_unit(self) -> Unit:
        """The unit in which a loss of the metric is told."""
        return SHARE if self.metric_loss_unit is msgspec.UNSET else self.metric_loss_unit

    @property
    def loss_bound(self) -> float | None:
        """What may be lost of the metric: with 95 % confidence where that is known, or else the loss seen."""
        if self.metric_loss is not None and isinstance(self.lost, Lost):
            return self.lost.high()
        return self.metric_loss

    def loses_nothing(self, path: str, precision: str | None) -> bool:
        """Whether the outputs of a cell are those of the reference: it is the reference, or they are exactly equal.

        Classes that are equal on all samples prove nothing of a reduced precision.

        Args:
            path: path of the cell.
            precision: precision of the reference.
        """
        is_reference = self.reference is not None and _without_sizes(path) == _without_sizes(self.reference)
        return is_reference or (self.fidelity == "exact" and self.precision == precision)

    @property
    def clock_tick_ns(self) -> int:
        """Time between two values of the clock that times the inferences; 0 where that is the worker's, a fine one."""
        return 0 if self.tick_ns is msgspec.UNSET else self.tick_ns

    @property
    def is_timed(self) -> bool:
        """Whether the cell may be timed: its outputs are not broken, and its times say something."""
        return self.fidelity != "broken" and self.untimed is msgspec.UNSET

    @property
    def is_whole(self) -> bool:
        """Whether the whole split was judged."""
        return self.num_samples is msgspec.UNSET

    @property
    def judges(self) -> tuple[str | None, str | None]:
        """Equal for qualities that were judged by the same code against the same reference outputs."""
        return (self.judged_by, self.reference_digest)


class WiderQuality(Quality, frozen=True, kw_only=True, tag="quality", tag_field="kind"):
    """A quality that a newer version stored, with the fields that are unknown here: they go along where it is copied.

    Attributes:
        unknown: these fields, at any depth, see `bench.records.forward_compat`.
    """

    unknown: tuple[Field, ...]


class ThreadLaunch(Launch, frozen=True, kw_only=True, tag="thread_launch"):
    """A launch that ran beside the cell itself at one thread, rather than beside the task's baseline."""


class Failure(msgspec.Struct, frozen=True, kw_only=True, tag="failure", tag_field="kind", omit_defaults=True):
    """Why a cell has no figures, or no further figures.

    Attributes:
        stage: `skip` (it cannot run here), `prepare`, `verify`, `open` or `measure`.
        reason: why, in one line.
        how: see `bench.api.errors.ChildError.kind`.
        detail: traceback and output of the process that failed.
        time: when the line was stored (ISO 8601); None before that.
    """

    stage: str
    reason: str
    how: str | None = None
    detail: str | None = None
    time: str | None = None

    @property
    def status(self) -> str:
        """The status of the cell's row: `skipped` where the cell cannot run here, or else `failed`."""
        return "skipped" if self.stage == "skip" else "failed"

    @classmethod
    def of(cls, stage: str, error: BenchError) -> Failure:
        """The failure of a stage by an error, with the kind and the log of the child process that failed.

        Where code of a plugin or a task raised an exception, its file and line follow the reason.
        """
        cause = error if isinstance(error, ChildError) else error.__cause__
        child = cause if isinstance(cause, ChildError) else None
        how, detail = (child.kind, child.detail) if child else ("error", "")
        where = error_location.place(child) if child else None
        return cls(stage=stage, reason=f"{error} ({where})" if where else str(error), how=how, detail=detail)


class Reset(msgspec.Struct, frozen=True, kw_only=True, tag="reset", tag_field="kind", omit_defaults=True):
    """The launches before this line no longer count.

    Attributes:
        launches: the kind of launches, `launch` or `thread_launch`; None for both kinds.
        time: when the line was stored (ISO 8601); None before that.
    """

    launches: str | None = None
    time: str | None = None


class FeatureLine(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """A line of a kind that a feature stores with a cell.

    Attributes:
        is_launch: whether it is a launch, which a command that is stopped says it has kept.
        time: the last field of each kind: when the line was stored (ISO 8601); None before that.
    """

    is_launch: ClassVar[bool] = False
    if TYPE_CHECKING:  # a field here would be the first of each kind
        time: str | None = None

    @property
    def identity(self) -> str:
        """Of a cell's lines of one kind with the same identity, the last counts."""
        return ""

    def faults(self) -> Iterator[Fault]:
        """What is wrong with the line, where the types are right."""
        return iter(())


Line: TypeAlias = Header | Quality | Launch | ThreadLaunch | FeatureLine | Failure | Reset


@functools.cache
def by_kind() -> Mapping[str, type[Line]]:
    """The kinds of lines, those of features among them, by the text that `kind` has in them."""
    of_features = [kind for module in features.modules("lines") for kind in module.KINDS]
    kinds = (Header, Quality, Launch, ThreadLaunch, *of_features, Failure, Reset)
    return {str(kind.__struct_config__.tag): kind for kind in kinds}


@functools.cache
def any_kind() -> Any:
    """A type that a line of any kind has, for msgspec."""
    return functools.reduce(operator.or_, by_kind().values())
