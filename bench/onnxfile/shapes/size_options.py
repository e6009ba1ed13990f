"""Sizes of a model's inputs as a person writes and reads them: `--dim height=224`, `--shape image=1x3x224x224`."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping

from bench.api.errors import InputError

SHAPE = re.compile(r"(?P<sizes>\d+(x\d+)*|)(:(?P<dtype>float(16|32|64)|u?int(8|16|32|64)|bool))?")
_DIM = re.compile(r"(?P<sizes>\d+)")
_AXIS = re.compile(r"(?P<sizes>\d+(,\d+)*)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GivenShape:
    """The shape of one input for one request, and its dtype where that was written, too."""

    sizes: tuple[int, ...]
    dtype: str | None


def dims_from(texts: Iterable[str]) -> dict[str, int]:
    """Sizes of dynamic dimensions by name, from texts such as `seq=128`.

    Args:
        texts: as the option `--dim` takes them.

    Raises:
        InputError: a text is not a name and a whole number.
    """
    fix = "not a size of a dimension: {!r}; write --dim height=224, a whole number of 0 or more"
    return {name: int(match["sizes"]) for name, match in _matched(texts, _DIM, fix)}


def axes_from(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The sizes to measure of each dynamic dimension, from texts such as `seq=16,64,256`.

    Args:
        texts: as the option `--dim` of `bench run` takes them.

    Raises:
        InputError: a text is not a name and whole numbers, or names a size twice.
    """
    fix = "not a size of a dimension: {!r}; write --dim height=224, or --dim height=224,448 for two sizes"
    axes: dict[str, tuple[int, ...]] = {}
    for name, match in _matched(texts, _AXIS, fix):
        sizes = tuple(map(int, match["sizes"].split(",")))
        if re.search(r"=\d+,", name):
            raise InputError(
                f"not one dimension: '{name}={match['sizes']}'; each has an option of its own, with its sizes: "
                "write --dim height=224,448 --dim width=320"
            )
        if name in axes or len(set(sizes)) != len(sizes):
            raise InputError(f"--dim names {name!r} twice, or a size of it; write each once, as in --dim {name}=16,64")
        axes[name] = sizes
    return axes


def shapes_from(texts: Iterable[str]) -> dict[str, GivenShape]:
    """Shapes of inputs by name, from texts such as `image=1x3x224x224`, `tokens=1x16:int64` or `scalar=`.

    Args:
        texts: as the option `--shape` takes them.

    Raises:
        InputError: a text is not a name, sizes joined by `x`, and perhaps a dtype after a colon.
    """
    fix = "not a shape of an input: {!r}; write --shape image=1x3x224x224 or tokens=1x16:int64"
    return {
        name: GivenShape(sizes=tuple(int(size) for size in match["sizes"].split("x") if size), dtype=match["dtype"])
        for name, match in _matched(texts, SHAPE, fix)
    }


def option(dim: str, size: int | str) -> str:
    """The option that gives a dimension a size, as a shell takes it."""
    return f"--dim {shlex.quote(f'{dim}={size}')}"


def tell_sizes(
    guessed: Mapping[str, int], options: Mapping[str, int] = {}, following: Mapping[str, int] = {}
) -> list[str]:
    """The line about the sizes of dimensions; no line where a person gave them all.

    Args:
        guessed: sizes that nobody gave, by dimension.
        options: sizes that a person gave.
        following: sizes that follow from the others.
    """
    if not guessed and not following:
        return []
    kinds = ((options, "given"), (guessed, "guessed"), (following, "from these"))
    parts = [f"{', '.join(f'{dim}={size}' for dim, size in sizes.items())} ({how})" for sizes, how in kinds if sizes]
    first = next(iter({**guessed, **options, **following}))
    return [f"sizes: {', '.join(parts)}; say others with {option(first, 'SIZE')}"]


def tell_fitted(chosen: Mapping[str, int], likely: Mapping[str, int], reasons: Mapping[str, str]) -> list[str]:
    """A line for each dimension whose likely size gave way to another.

    Args:
        chosen: the sizes, by dimension.
        likely: the sizes that would have been chosen if the model's nodes allowed them.
        reasons: by dimension whose likely size did not fit, the requirement that it did not meet.
    """
    changed = {dim: why for dim, why in reasons.items() if chosen[dim] != likely[dim]}
    return [f"{dim} is {chosen[dim]} and not {likely[dim]}: {why}" for dim, why in changed.items()]


def _matched(texts: Iterable[str], pattern: re.Pattern[str], fix: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Each name with the match of what stands after its `=`; a name may hold `=` and `:` itself."""
    for text in texts:
        name, _, value = text.rpartition("=")
        match = pattern.fullmatch(value)
        if not name or match is None:
            raise InputError(fix.format(text))
        yield name, match
