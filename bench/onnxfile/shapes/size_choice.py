"""Sizes of all dimensions of a model's inputs: those that a person gave, those that follow, and guesses."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence

from bench.api.errors import InputError
from bench.onnxfile.shapes.constraints import Requirement, Requirements, equal, value_of
from bench.onnxfile.shapes.dims import Size
from bench.onnxfile.shapes.exact import LARGEST, Range, UndecidedError, solution
from bench.onnxfile.shapes.refusals import AS_GIVEN, WHOLE, refusal
from bench.onnxfile.shapes.size_options import tell_sizes
from bench.onnxfile.shapes.solving import proposals
from bench.onnxfile.shapes.stated_sizes import Stated


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chosen:
    """Sizes of all dimensions.

    Attributes:
        stated: what the texts in the shapes of the inputs stand for.
        given: sizes that a person gave, by text or dimension.
        sizes: of every dimension.
    """

    stated: Stated
    given: Mapping[str, int]
    sizes: Mapping[str, int]

    @functools.cached_property
    def values(self) -> dict[str, int]:
        """The sizes of all dimensions and texts; what was given is as given, though it may contradict the rest."""
        following = [text for text in self.stated.following if text not in self.given]
        text_sizes = {text: value_of(self.stated.sizes[text], self.sizes) for text in following}
        return {**self.sizes, **text_sizes, **self.given}

    @property
    def fixed(self) -> set[str]:
        """The dimensions whose sizes were given."""
        return self.given.keys() & set(self.stated.dims)

    @property
    def guessed(self) -> dict[str, int]:
        """Sizes by dimension that nobody gave, and that do not follow from what was given."""
        known = {*self.given, *self._solved, *self.stated.following}
        return {dim: size for dim, size in self.sizes.items() if dim not in known}

    @property
    def following(self) -> dict[str, int]:
        """Sizes that nobody gave, and that follow from others, by text or dimension."""
        return {text: self.values[text] for text in (*self._solved, *self.stated.following) if text not in self.given}

    @functools.cached_property
    def _solved(self) -> list[str]:
        """The dimensions to which sizes that were given for expressions leave no other size."""
        about = [dim for text in self.stated.following if text in self.given for dim in self.stated.of(text)]
        required, ranges = _requirements(self.stated, self.given), _ranges(self.stated, self.given)
        if not about or any(not requirement.is_met(self.sizes, {}) for requirement in required):
            return []
        open_dims = [dim for dim in dict.fromkeys(about) if dim not in self.given]
        return [dim for dim in open_dims if _is_only_size(dim, required, ranges, self.sizes)]

    def lines(self, *, without: Collection[str] = ()) -> list[str]:
        """The line about these sizes, but for those that depend on the dimensions in `without`."""
        depends = {text for text in self.stated.following if set(self.stated.of(text)).intersection(without)}
        groups = [
            {text: size for text, size in sizes.items() if text not in without and text not in depends}
            for sizes in (self.guessed, self.given, self.following)
        ]
        return tell_sizes(*groups)

    def with_requirements(self, required: Requirements) -> Requirements:
        """The requirements of a graph, and those of what was given."""
        return dataclasses.replace(required, always=(*required.always, *_requirements(self.stated, self.given)))


def choose(stated: Stated, options: Mapping[str, int], likely: Mapping[str, int], *, strict: bool = True) -> Chosen:
    """The sizes of all dimensions that fit those that were given.

    Args:
        stated: what the texts in the shapes of the inputs stand for.
        options: sizes by text or dimension.
        likely: sizes of the dimensions, by name; those that were given count instead.
        strict: whether what contradicts itself is refused.

    Raises:
        InputError: no sizes fit what was given; the message has both sides.
    """
    sizes = {dim: options.get(dim, likely.get(dim, 1)) for dim in stated.dims}
    chosen = Chosen(stated=stated, given=options, sizes=sizes)
    required, ranges = _requirements(stated, options), _ranges(stated, options)
    proposed = next(proposals(Requirements(always=tuple(required)), sizes, chosen.fixed), None)
    fitting_sizes = None if proposed is None else proposed.sizes
    is_proven = False
    if fitting_sizes is None or any(size == 0 != sizes[dim] for dim, size in fitting_sizes.items()):
        with contextlib.suppress(UndecidedError):
            fitting_sizes = _with_elements(required, ranges, sizes)
            is_proven = fitting_sizes is None
    if fitting_sizes is not None:
        return dataclasses.replace(chosen, sizes=fitting_sizes)
    if strict:
        raise InputError(refusal(stated, options, required, ranges, sizes, is_proven=is_proven))
    return chosen


def _with_elements(
    required: Sequence[Requirement], ranges: Mapping[str, Range], sizes: Mapping[str, int]
) -> dict[str, int] | None:
    """Sizes that fit, near likely ones; 0 only where the likely size is 0 or no other fits. Raises as `solution`.

    Where one of several must be 0, it is that of a cache: without tokens there is no request.
    """
    raised = {dim: (1, high) for dim, (low, high) in ranges.items() if low == 0 < min(high, sizes[dim])}
    with contextlib.suppress(UndecidedError):
        if (fitting_sizes := solution(required, {**ranges, **raised}, sizes)) is not None:
            return fitting_sizes
    fitting_sizes = solution(required, ranges, sizes)
    for dim in sorted(raised, key=lambda dim: "past" in dim.lower()):
        if fitting_sizes is not None:
            tried = {**ranges, dim: raised[dim]}
            with contextlib.suppress(UndecidedError):
                if (better := solution(required, tried, sizes)) is not None:
                    ranges, fitting_sizes = tried, better
    return fitting_sizes


def _is_only_size(
    dim: str, required: Sequence[Requirement], ranges: Mapping[str, Range], sizes: Mapping[str, int]
) -> bool:
    """Whether it is proven that a dimension can have no other size."""
    others = ((0, sizes[dim] - 1), (sizes[dim] + 1, LARGEST))
    try:
        return all(solution(required, {**ranges, dim: each}, sizes) is None for each in others if each[0] <= each[1])
    except UndecidedError:
        return False


def _ranges(stated: Stated, options: Mapping[str, int]) -> dict[str, Range]:
    """The sizes that each dimension can have."""
    return {dim: (options[dim], options[dim]) if dim in options else (0, LARGEST) for dim in stated.dims}


def _requirements(stated: Stated, options: Mapping[str, int]) -> list[Requirement]:
    """What the texts, and the sizes that were given for them, require of dimensions."""
    requirements = []
    for text in stated.following:
        size, about = stated.sizes[text], (f"dimension {text!r}", frozenset(stated.of(text)))
        requirements.append(_requirement(about, "is 0 or more", (size,), _is_size))
        if text in stated.remainders:
            requirements.append(_requirement(about, WHOLE, (stated.remainders[text], 0), equal))
        if text in options:
            requirements.append(_requirement(about, AS_GIVEN, (size, options[text]), equal))
    return requirements


def _requirement(
    about: tuple[str, frozenset[str]], what: str, sizes: tuple[Size, ...], holds: Callable[..., bool]
) -> Requirement:
    return Requirement(node=about[0], what=what, sizes=sizes, holds=holds, dims=about[1])


def _is_size(size: int) -> bool:
    return size >= 0
