"""Sizes of dimensions that meet what is required of them, near the sizes that are likely."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from bench.onnxfile.shapes.constraints import Requirement, Requirements, value_of
from bench.onnxfile.shapes.dims import symbol

_USUAL = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 60, 64, 80, 96, 100, 112, 120, 128, 144, 160, 192),
    *(200, 224, 240, 256, 288, 299, 300, 320, 331, 352, 384, 400, 416, 448, 480, 500, 512, 544, 576, 600, 608, 640),
    *(672, 704, 720, 768, 800, 832, 896, 960, 1000, 1024, 1080, 1088, 1280, 1500, 1536, 1600, 1920, 2000, 2048, 3000),
    *(3072, 4000, 4096, 8000, 8192, 16000, 16384, 22050, 24000, 32000, 32768, 44100, 48000, 65536),
)
"""Sizes that models are made for, tried first."""
LARGEST = 4096  # of the sizes that are all tried if no usual one fits
_MOST_REPAIRS = 12
_MOST_PAIRS = 2000  # of changes of two dimensions, tried where no change of one helps
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
    rank: tuple[int, bool, bool] = (0, False, False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Pair:
    """Other sizes of two dimensions.

    Attributes:
        num_unmet: how many requirements they leave unmet.
        sizes: of all dimensions as they were.
    """

    changes: Sequence[_Change]
    num_unmet: int
    sizes: Mapping[str, int]

    @property
    def has_none(self) -> bool:
        """Whether one of them makes an input without elements."""
        return any(not change.size for change in self.changes)

    @property
    def rank(self) -> tuple[int, bool, int, float]:
        """What makes it worse than another pair: unmet requirements, no elements, changed batches, and its distance."""
        num_batches = sum(self.sizes[change.dim] == 1 for change in self.changes)
        factors = [max(change.size, 1) / max(self.sizes[change.dim], 1) for change in self.changes]
        return self.num_unmet, self.has_none, num_batches, sum(abs(math.log(factor)) for factor in factors)


def proposals(required: Requirements, likely: Mapping[str, int], fixed: Collection[str]) -> Iterator[Proposal]:
    """Sizes to try, best first; none where no sizes were found that fit.

    Args:
        required: see `fitting.requirements`.
        likely: the likely size of every open dimension.
        fixed: dimensions whose size must stay.
    """
    sizes, reasons = dict(likely), {}
    for _ in range(_MOST_REPAIRS):
        unmet = required.unmet(sizes)
        if not unmet:
            break
        repairs = _repair(required, sizes, unmet, fixed)
        if not repairs:
            return
        for repair in repairs:
            sizes[repair.dim], reasons[repair.dim] = repair.size, repair.why
    else:
        return
    yield Proposal(sizes=dict(sizes), reasons=reasons)
    for dim in reasons:
        others = (size for size in _USUAL if size != sizes[dim])
        fitting = (size for size in others if not required.unmet({**sizes, dim: size}))
        for _, size in zip(range(OTHERS), fitting, strict=False):
            yield Proposal(sizes={**sizes, dim: size}, reasons=reasons)


def _repair(
    required: Requirements, sizes: Mapping[str, int], unmet: Sequence[Requirement], fixed: Collection[str]
) -> Sequence[_Change]:
    """The change of one dimension that leaves the fewest requirements unmet, or of two where one does not help.

    A size of 1 is that of a batch, and is changed only where no other change helps. No elements are taken only where
    two changes do not avoid them.
    """
    open_dims = dict.fromkeys(dim for requirement in unmet for dim in sorted(requirement.dims) if dim not in fixed)
    best: _Change | None = None
    for dims in ([dim for dim in open_dims if sizes[dim] != 1], [dim for dim in open_dims if sizes[dim] == 1]):
        changes = [change for dim in dims if (change := _change(required, sizes, unmet, dim)) is not None]
        if changes:
            best = min(changes, key=lambda change: change.rank)
            break
    if best is not None and best.size:
        return [best]
    most = len(unmet) - 1 if best is None else best.rank[0]
    tried = (changes for dim in open_dims for changes in _pairs(required, sizes, unmet, dim, fixed, most))
    pairs = []
    for first, second in itertools.islice(tried, _MOST_PAIRS):
        number = len(required.unmet({**sizes, first.dim: first.size, second.dim: second.size}))
        pair = _Pair(changes=(first, second), num_unmet=number, sizes=sizes)
        if number <= most and (best is None or not pair.has_none):
            pairs.append(pair)
    if pairs:
        return min(pairs, key=lambda pair: pair.rank).changes
    return [] if best is None else [best]


def _pairs(
    required: Requirements,
    sizes: Mapping[str, int],
    unmet: Sequence[Requirement],
    dim: str,
    fixed: Collection[str],
    most: int,
) -> Iterator[tuple[_Change, _Change]]:
    """Changes of a dimension and of another that may leave at most `most` requirements unmet.

    Both are needed where one equation links the two: with a given `past + new`, another `new` takes another `past`.
    """
    about = [requirement for requirement in unmet if dim in requirement.dims]
    solutions = {size for requirement in about for size in _solutions(requirement, dim, sizes)}
    for size in sorted({*_USUAL, *solutions} - {sizes[dim]}):
        tried = {**sizes, dim: size}
        left = required.unmet(tried)
        for other in sorted(frozenset().union(*(requirement.dims for requirement in left)).difference(fixed, [dim])):
            linked = [requirement for requirement in left if other in requirement.dims]
            if len(left) - len(linked) > most:  # the other dimension leaves these unmet
                continue
            values = {value for requirement in linked for value in _solutions(requirement, other, tried)} - {
                sizes[other]
            }
            for value in sorted(values):
                first = _Change(dim=dim, size=size, why=about[0].text(sizes))
                yield first, _Change(dim=other, size=value, why=linked[0].text(tried))


def _change(required: Requirements, sizes: Mapping[str, int], unmet: Sequence[Requirement], dim: str) -> _Change | None:
    """The best other size of a dimension; None where none leaves fewer requirements unmet.

    Of changes that are as good, one of a dimension that is a side of its own, as the total in `total = past + new`, is
    better, and no elements are worse.
    """
    about = [requirement for requirement in unmet if dim in requirement.dims]
    solutions = {size for requirement in about for size in _solutions(requirement, dim, sizes)}
    for tried in ((*_USUAL, *(solutions.difference(_USUAL))), range(1, LARGEST + 1)):
        counts = {size: len(required.unmet({**sizes, dim: size})) for size in tried}
        fewest = min(counts.values())
        if fewest < len(unmet):
            fitting = [size for size, count in counts.items() if count == fewest]
            fitting = [size for size in fitting if size] or fitting
            size = _chosen(_preferred(required, sizes, dim, fitting), sizes[dim])
            is_side = any(symbol(dim) in requirement.sizes for requirement in about)
            return _Change(dim=dim, size=size, why=about[0].text(sizes), rank=(fewest, not size, not is_side))
    return None


def _solutions(requirement: Requirement, dim: str, sizes: Mapping[str, int]) -> Iterator[int]:
    """Sizes of a dimension that make two sizes of a requirement equal, as far as they grow in proportion to it."""
    for left, right in itertools.combinations(requirement.sizes, 2):
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
