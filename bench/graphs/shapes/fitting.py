"""Sizes of a model's open dimensions that meet what its nodes require of them, near the sizes that are likely."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

from bench.api.errors import InputError
from bench.graphs.file import domains, settled
from bench.graphs.file.lazy import Stored
from bench.graphs.shapes import constraints, inference, tensors
from bench.graphs.shapes.constraints import Requirement, Requirements
from bench.graphs.shapes.dims import Dim
from bench.graphs.shapes.given import tell_fitted, tell_guessed
from bench.graphs.shapes.node import ShapeError
from bench.graphs.shapes.steps import Inferred, Step, all_steps

USUAL = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 60, 64, 80, 96, 100, 112, 120, 128, 144, 160, 192),
    *(200, 224, 240, 256, 288, 299, 300, 320, 331, 352, 384, 400, 416, 448, 480, 500, 512, 544, 576, 600, 608, 640),
    *(672, 704, 720, 768, 800, 832, 896, 960, 1000, 1024, 1080, 1088, 1280, 1500, 1536, 1600, 1920, 2000, 2048, 3000),
    *(3072, 4000, 4096, 8000, 8192, 16000, 16384, 22050, 24000, 32000, 32768, 44100, 48000, 65536),
)
"""Sizes that models are made for, tried first."""
LARGEST = 4096  # of the sizes that are all tried if no usual one fits
MOST_REPAIRS = 12
OTHERS = 4  # further fitting sizes of a dimension that are proposed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proposal:
    """Sizes of all open dimensions that may fit.

    Attributes:
        sizes: by dimension.
        reasons: by dimension whose likely size did not fit, the requirement that it did not meet.
    """

    sizes: Mapping[str, int]
    reasons: Mapping[str, str]


def requirements(stored: Stored) -> Requirements:
    """What the nodes of a model require of the dimensions of its inputs; nothing where the shapes do not follow."""
    stored = dataclasses.replace(stored, model=settled.settle(stored.model))
    inputs = {name: shape for name, shape in tensors.dynamic_inputs(stored.model).items() if shape is not None}
    try:
        inferred = inference.infer(stored, inputs, domains.numbers(stored))
    except InputError:
        return Requirements(always=())
    return constraints.of_steps(inferred.steps)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fitted:
    """A model inferred with sizes that fit, as far as sizes were found that do.

    Attributes:
        inferred: the results of inference.
        inputs: shapes of the inputs, by name.
        guessed: sizes of dimensions that nobody gave, by name.
        likely: the sizes that these dimensions would have if the nodes allowed them.
        reasons: by dimension whose likely size did not fit, the requirement that it did not meet.
    """

    inferred: Inferred
    inputs: Mapping[str, tuple[int, ...]]
    guessed: Mapping[str, int]
    likely: Mapping[str, int]
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def notes(self, *, without: Collection[str] = ()) -> list[str]:
        """Lines about the sizes that nobody gave, but for the dimensions in `without`."""
        guessed = {dim: size for dim, size in self.guessed.items() if dim not in without}
        reasons = {dim: why for dim, why in self.reasons.items() if dim in guessed}
        return [*tell_fitted(guessed, self.likely, reasons), *tell_guessed(guessed)]


def infer(stored: Stored, inputs: Mapping[str, tuple[int, ...]], guessed: Mapping[str, int]) -> Fitted:
    """Infer a settled model with likely sizes, or with others that fit where those do not.

    Args:
        inputs: shapes of the inputs, by name, of likely sizes.
        guessed: those of the sizes that may be others, by dimension.

    Raises:
        InputError: as `inference.infer`; where no sizes fit, for the likely sizes.
    """
    known = domains.numbers(stored)
    refused: ShapeError | None = None
    likely: Inferred | None = None
    try:
        likely = inference.infer(stored, inputs, known)
    except ShapeError as error:
        refused = error
    if likely is not None and not (guessed and _is_stuck(likely.steps)):
        return Fitted(inferred=likely, inputs=inputs, guessed=guessed, likely=guessed)
    dynamic = {name: shape for name, shape in tensors.dynamic_inputs(stored.model).items() if shape is not None}
    sizes = {
        str(dim): size
        for name, shape in dynamic.items()
        for dim, size in zip(shape, inputs.get(name, ()), strict=False)
        if isinstance(dim, Dim)
    }
    for proposal in proposals(requirements(stored), sizes, sizes.keys() - guessed.keys()) if guessed else ():
        bound = {**inputs, **{name: constraints.shape_of(shape, proposal.sizes) for name, shape in dynamic.items()}}
        with contextlib.suppress(ShapeError):
            inferred = inference.infer(stored, bound, known)
            chosen = {dim: proposal.sizes[dim] for dim in guessed}
            reasons = {dim: why for dim, why in proposal.reasons.items() if dim in chosen}
            return Fitted(inferred=inferred, inputs=bound, guessed=chosen, likely=guessed, reasons=reasons)
    if likely is None:
        assert refused is not None
        raise refused
    return Fitted(inferred=likely, inputs=inputs, guessed=guessed, likely=guessed)


def _is_stuck(steps: Sequence[Step]) -> bool:
    """Whether there is an If of which no branch can run."""
    return any(step.bodies and all(body.why_not for body in step.bodies) for step in all_steps(steps))


def proposals(required: Requirements, likely: Mapping[str, int], fixed: Collection[str]) -> Iterator[Proposal]:
    """Sizes to try, best first; none where no sizes were found that fit.

    Args:
        required: see `requirements`.
        likely: the likely size of every open dimension.
        fixed: dimensions whose size must stay.
    """
    sizes, reasons = dict(likely), {}
    for _ in range(MOST_REPAIRS):
        unmet = required.unmet(sizes)
        if not unmet:
            break
        repair = _repair(required, sizes, unmet, fixed)
        if repair is None:
            return
        dim, size, why = repair
        sizes[dim], reasons[dim] = size, why
    else:
        return
    yield Proposal(sizes=dict(sizes), reasons=reasons)
    for dim in reasons:
        others = (size for size in USUAL if size != sizes[dim])
        fitting = (size for size in others if not required.unmet({**sizes, dim: size}))
        for _, size in zip(range(OTHERS), fitting, strict=False):
            yield Proposal(sizes={**sizes, dim: size}, reasons=reasons)


def _repair(
    required: Requirements, sizes: Mapping[str, int], unmet: Sequence[Requirement], fixed: Collection[str]
) -> tuple[str, int, str] | None:
    """The change of one dimension that leaves the fewest requirements unmet: its name, its size, and why.

    A size of 1 is that of a batch, and is changed only where no other change helps.
    """
    open_dims = dict.fromkeys(dim for one in unmet for dim in sorted(one.dims) if dim not in fixed)
    for dims in ([dim for dim in open_dims if sizes[dim] != 1], [dim for dim in open_dims if sizes[dim] == 1]):
        if best := _best_change(required, sizes, unmet, dims):
            return best
    return None


def _best_change(
    required: Requirements, sizes: Mapping[str, int], unmet: Sequence[Requirement], dims: Sequence[str]
) -> tuple[str, int, str] | None:
    best: tuple[int, str, int, str] | None = None
    for dim in dims:
        why = next(one for one in unmet if dim in one.dims).text(sizes)
        for tried in (USUAL, range(1, LARGEST + 1)):
            counts = {size: len(required.unmet({**sizes, dim: size})) for size in tried}
            fewest = min(counts.values())
            if fewest < len(unmet):
                size = _chosen([size for size, count in counts.items() if count == fewest], sizes[dim])
                if best is None or fewest < best[0]:
                    best = (fewest, dim, size, why)
                break
    return best and best[1:]


def _chosen(fitting: Sequence[int], likely: int) -> int:
    """The size to take of those that fit: the smallest that a model needs, or the largest that it allows.

    Of a range of sizes, multiples of 16 are taken first: networks halve sizes, and were trained on such.
    """
    smaller = [size for size in fitting if size <= likely]
    if 1 in fitting and smaller:
        return max(smaller)
    return min([size for size in fitting if size % 16 == 0] or fitting)
