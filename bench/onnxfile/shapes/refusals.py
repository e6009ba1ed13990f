"""Why no sizes fit those that a person gave, with both sides and the option that mends it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from bench.onnxfile.shapes.constraints import Requirement, value_of
from bench.onnxfile.shapes.exact import Range, UndecidedError, solution
from bench.onnxfile.shapes.size_options import option
from bench.onnxfile.shapes.stated_sizes import Stated

AS_GIVEN = "is as given"
WHOLE = "is whole"
_MOST_ADDED = 64
"""The difference up to which another size is looked for that a message can propose."""


def refusal(
    stated: Stated,
    options: Mapping[str, int],
    required: Sequence[Requirement],
    ranges: Mapping[str, Range],
    likely: Mapping[str, int],
    *,
    is_proven: bool,
) -> str:
    """What is wrong with the sizes that were given.

    Args:
        stated: what the texts in the shapes of the inputs stand for.
        options: sizes by text or dimension.
        required: what the texts and the sizes that were given require, each named as `dimension 'TEXT'`.
        ranges: the sizes that each dimension can have.
        likely: sizes of all dimensions; those that were given are as given.
        is_proven: whether it is proven that no sizes fit.
    """
    core = (
        _core(required, ranges)
        if is_proven
        else [requirement for requirement in required if not requirement.is_met(likely, {})]
    )
    fixed = {
        dim: likely[dim]
        for dim in sorted(frozenset().union(*(requirement.dims for requirement in core)))
        if dim in options
    }
    of_given = [requirement for requirement in core if requirement.what == AS_GIVEN]
    if not of_given:
        return _unfit(core, options, fixed, is_proven, _nearest(core, ranges, likely, fixed))
    texts = {f"dimension {text!r}": text for text in stated.following}
    first, *others = of_given
    text = texts[first.node]
    sizes = _possible([requirement for requirement in required if requirement is not first], ranges, likely)
    free = " and ".join(dim for dim in stated.of(text) if dim not in options)
    if not free:
        values = " and ".join(f"{dim}={options[dim]}" for dim in stated.of(text))
        value = value_of(stated.sizes[text], likely)
        fix = f"leave one of them out, or say {option(text, value)}"
        return f"{first.node} is given {options[text]}, and {values} make it {value}; {fix}"
    sides = [f"{name}={size}" for name, size in fixed.items()]
    sides += [f"{texts[requirement.node]}={options[texts[requirement.node]]}" for requirement in others]
    sides += dict.fromkeys(f"a whole {texts[requirement.node]!r}" for requirement in core if requirement.what == WHOLE)
    makes = f"which no size of {free} makes" if is_proven else f"and no size of {free} was found that makes it"
    fixes = [] if sizes is None else [f"say {option(text, value_of(stated.sizes[text], sizes))}"]
    if others or sizes is None:
        fixes.insert(0, "leave one of them out")
    return f"{first.node} is given {options[text]}, {makes}{_with(sides)}; {', or '.join(fixes)}"


def _unfit(
    core: Sequence[Requirement], options: Mapping[str, int], fixed: Mapping[str, int], is_proven: bool, fix: str
) -> str:
    """That expressions are no sizes, whatever the dimensions are that nobody gave."""
    first = core[0]
    free = " and ".join(sorted(dim for dim in first.dims if dim not in options))
    sides = [f"{dim}={size}" for dim, size in fixed.items()]
    if not is_proven:
        return f"no size of {free} was found with which {first.node} {first.what}{_with(sides)}"
    sides += [f"any {free}"] if free else []
    others = dict.fromkeys(requirement.node for requirement in core if requirement.node != first.node)
    where = f", together with {' and '.join(others)}" if others else ""
    wrong = "is no whole number" if first.what == WHOLE else "is no size of 0 or more"
    return f"{first.node} {wrong}{_with(sides)}{where}; {fix}"


def _with(sides: Sequence[str]) -> str:
    return f" with {' and '.join(sides)}" if sides else ""


def _core(required: Iterable[Requirement], ranges: Mapping[str, Range]) -> list[Requirement]:
    """Those of requirements that no sizes meet together, of which none can be left out."""
    core = list(required)
    for requirement in sorted(core, key=lambda each: each.what != AS_GIVEN):  # those of the file say more, and are kept
        rest = [other for other in core if other is not requirement]
        with contextlib.suppress(UndecidedError):
            core = core if solution(rest, ranges, _least(ranges)) is not None else rest
    return core


def _least(ranges: Mapping[str, Range]) -> dict[str, int]:
    return {dim: low for dim, (low, _) in ranges.items()}


def _possible(
    required: Sequence[Requirement], ranges: Mapping[str, Range], likely: Mapping[str, int]
) -> dict[str, int] | None:
    """Sizes near the likely ones that meet requirements; None where none are found."""
    with contextlib.suppress(UndecidedError):
        return solution(required, ranges, likely)
    return None


def _nearest(
    core: Sequence[Requirement], ranges: Mapping[str, Range], likely: Mapping[str, int], fixed: Mapping[str, int]
) -> str:
    """The option that gives a dimension another size, with which requirements are met."""
    if not fixed:
        return "the file contradicts itself"
    for more in range(1, _MOST_ADDED + 1):
        for dim, size in fixed.items():
            if _possible(core, {**ranges, dim: (size + more, size + more)}, likely) is not None:
                return f"say {option(dim, size + more)}"
    return f"say {option(next(iter(fixed)), 'SIZE')}"
