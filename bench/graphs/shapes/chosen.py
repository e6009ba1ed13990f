"""Sizes of all dimensions of a model's inputs: those that a person gave, those that follow, and guesses."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping

from bench.api.errors import InputError
from bench.graphs.shapes.constraints import Requirement, Requirements, equal, value_of
from bench.graphs.shapes.dims import Size
from bench.graphs.shapes.given import option, tell_sizes
from bench.graphs.shapes.solving import proposals
from bench.graphs.shapes.stated import Stated

MOST_ADDED = 64
"""The difference up to which another size is looked for that a message can propose."""


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
        found = {text: value_of(self.stated.sizes[text], self.sizes) for text in following}
        return {**self.sizes, **found, **self.given}

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

    @property
    def _solved(self) -> list[str]:
        """The dimensions that a size that was given for an expression decides."""
        about = [dim for text in self.stated.following if text in self.given for dim in self.stated.of(text)]
        return [dim for dim in dict.fromkeys(about) if dim not in self.given]

    def told(self, *, without: Collection[str] = ()) -> list[str]:
        """The line about these sizes, but for those that depend on the dimensions in `without`."""
        depends = {text for text in self.stated.following if set(self.stated.of(text)).intersection(without)}
        kept = [
            {text: size for text, size in sizes.items() if text not in without and text not in depends}
            for sizes in (self.guessed, self.given, self.following)
        ]
        return tell_sizes(*kept)

    def with_requirements(self, required: Requirements) -> Requirements:
        """The requirements of a graph, and those of what was given."""
        return dataclasses.replace(required, always=(*required.always, *_requirements(self.stated, self.given)))


def choose(stated: Stated, given: Mapping[str, int], likely: Mapping[str, int], *, strict: bool = True) -> Chosen:
    """The sizes of all dimensions that fit those that were given.

    Args:
        stated: what the texts in the shapes of the inputs stand for.
        given: sizes by text or dimension.
        likely: sizes of the dimensions, by name; those that were given count instead.
        strict: whether what contradicts itself is refused.

    Raises:
        InputError: no sizes fit what was given; the message has both sides.
    """
    sizes = {dim: given.get(dim, likely.get(dim, 1)) for dim in stated.dims}
    chosen = Chosen(stated=stated, given=given, sizes=sizes)
    required = Requirements(always=tuple(_requirements(stated, given)))
    found = next(proposals(required, sizes, chosen.fixed), None)
    if found is not None:
        return dataclasses.replace(chosen, sizes=found.sizes)
    if strict:
        raise InputError(_contradiction(stated, given, required.unmet(sizes)[0], sizes))
    return chosen


def _requirements(stated: Stated, given: Mapping[str, int]) -> list[Requirement]:
    """What the texts, and the sizes that were given for them, require of dimensions."""
    found = []
    for text in stated.following:
        size, about = stated.sizes[text], (f"dimension {text!r}", frozenset(stated.of(text)))
        found.append(_requirement(about, "is 0 or more", (size,), _is_size))
        if text in stated.remainders:
            found.append(_requirement(about, "is whole", (stated.remainders[text], 0), equal))
        if text in given:
            found.append(_requirement(about, "is as given", (size, given[text]), equal))
    return found


def _requirement(
    about: tuple[str, frozenset[str]], what: str, sizes: tuple[Size, ...], holds: Callable[..., bool]
) -> Requirement:
    return Requirement(node=about[0], what=what, sizes=sizes, holds=holds, dims=about[1])


def _is_size(size: int) -> bool:
    return size >= 0


def _contradiction(stated: Stated, given: Mapping[str, int], unmet: Requirement, sizes: Mapping[str, int]) -> str:
    """What is wrong with the sizes that were given, with both sides, and the option that mends it."""
    (text,) = (text for text in stated.following if f"dimension {text!r}" == unmet.node)
    dims = stated.of(text)
    with_ = " and ".join(f"{dim}={sizes[dim]}" for dim in dims)
    if unmet.what == "is as given":
        if all(dim in given for dim in dims):
            made = value_of(stated.sizes[text], sizes)
            return (
                f"dimension {text!r} is given {given[text]}, and {with_} make it {made}; leave one of them out, or say "
                f"{option(text, made)}"
            )
        free = " and ".join(dim for dim in dims if dim not in given)
        told = "".join(f" with {dim}={given[dim]}" for dim in dims if dim in given)
        fix = option(text, value_of(stated.sizes[text], sizes))
        return f"dimension {text!r} is given {given[text]}, which no size of {free} makes{told}; say {fix}"
    others = ((dim, sizes[dim] + more) for more in range(1, MOST_ADDED + 1) for dim in dims)
    nearest = next((option(dim, size) for dim, size in others if unmet.is_met({**sizes, dim: size}, {})), None)
    wrong = "is no whole number" if unmet.what == "is whole" else "is no size of 0 or more"
    return f"dimension {text!r} {wrong} with {with_}; say {nearest or option(dims[0], 'SIZE')}"
