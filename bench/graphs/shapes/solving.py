"""Sizes of dimensions that meet what is required of them, near the sizes that are likely."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from bench.graphs.shapes.constraints import Requirement, Requirements, value_of
from bench.graphs.shapes.dims import symbol

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Change:
    """Another size of one dimension, and why.

    Attributes:
        rank: what makes it worse than another change, the most important first.
    """

    dim: str
    size: int
    why: str
    rank: tuple[int, bool, bool]


def proposals(required: Requirements, likely: Mapping[str, int], fixed: Collection[str]) -> Iterator[Proposal]:
    """Sizes to try, best first; none where no sizes were found that fit.

    Args:
        required: see `fitting.requirements`.
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
        sizes[repair.dim], reasons[repair.dim] = repair.size, repair.why
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
) -> _Change | None:
    """The change of one dimension that leaves the fewest requirements unmet.

    A size of 1 is that of a batch, and is changed only where no other change helps.
    """
    open_dims = dict.fromkeys(dim for one in unmet for dim in sorted(one.dims) if dim not in fixed)
    for dims in ([dim for dim in open_dims if sizes[dim] != 1], [dim for dim in open_dims if sizes[dim] == 1]):
        changes = [change for dim in dims if (change := _change(required, sizes, unmet, dim)) is not None]
        if changes:
            return min(changes, key=lambda change: change.rank)
    return None


def _change(required: Requirements, sizes: Mapping[str, int], unmet: Sequence[Requirement], dim: str) -> _Change | None:
    """The best other size of a dimension; None where none leaves fewer requirements unmet.

    Of changes that are as good, one of a dimension that is a side of its own, as the total in `total = past + new`, is
    better, and no elements are worse.
    """
    about = [one for one in unmet if dim in one.dims]
    solutions = {size for one in about for size in _solutions(one, dim, sizes)}
    for tried in ((*USUAL, *(solutions.difference(USUAL))), range(1, LARGEST + 1)):
        counts = {size: len(required.unmet({**sizes, dim: size})) for size in tried}
        fewest = min(counts.values())
        if fewest < len(unmet):
            fitting = [size for size, count in counts.items() if count == fewest]
            fitting = [size for size in fitting if size] or fitting
            size = _chosen(_preferred(required, sizes, dim, fitting), sizes[dim])
            is_side = any(symbol(dim) in one.sizes for one in about)
            return _Change(dim=dim, size=size, why=about[0].text(sizes), rank=(fewest, not size, not is_side))
    return None


def _solutions(one: Requirement, dim: str, sizes: Mapping[str, int]) -> Iterator[int]:
    """Sizes of a dimension that make two sizes of a requirement equal, as far as they grow in proportion to it."""
    for left, right in itertools.combinations(one.sizes, 2):
        try:
            at = [value_of(left, {**sizes, dim: size}) - value_of(right, {**sizes, dim: size}) for size in (0, 1)]
            slope = at[1] - at[0]
            if slope and -at[0] % slope == 0 and (size := -at[0] // slope) >= 0:
                yield size
        except ArithmeticError:  # a division by a size of 0
            continue


def _preferred(required: Requirements, sizes: Mapping[str, int], dim: str, fitting: Sequence[int]) -> list[int]:
    """Those of the fitting sizes of a dimension with which the fewest requirements are met by broadcasting alone."""
    counts = {size: required.num_stretched({**sizes, dim: size}, dim) for size in fitting}
    fewest = min(counts.values())
    return [size for size, count in counts.items() if count == fewest]


def _chosen(fitting: Sequence[int], likely: int) -> int:
    """The size to take of those that fit: the smallest that a model needs, or the largest that it allows.

    Of a range of sizes, multiples of 16 are taken first: networks halve sizes, and were trained on such.
    """
    smaller = [size for size in fitting if size <= likely]
    if 1 in fitting and smaller:
        return max(smaller)
    return min([size for size in fitting if size % 16 == 0] or fitting)
