"""Sizes of a model's inputs as a person writes them: `--dim height=224`, `--shape image=1x3x224x224`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from bench.api.errors import InputError

SHAPE = re.compile(r"(?P<sizes>\d+(x\d+)*|)(:(?P<dtype>float(16|32|64)|u?int(8|16|32|64)|bool))?")
DIM = re.compile(r"(?P<sizes>\d+)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GivenShape:
    """The shape of one input for one request, and its dtype where that was written, too."""

    sizes: tuple[int, ...]
    dtype: str | None


def dims_from(texts: Iterable[str], *, zero: bool = False) -> dict[str, int]:
    """Sizes of dynamic dimensions by name, from texts such as `seq=128`.

    Args:
        texts: as the option `--dim` takes them.
        zero: whether a dimension may have no elements.

    Raises:
        InputError: a text is not a name and a whole number.
    """
    fix = "not a size of a dimension: {!r}; write --dim height=224"
    return {name: int(match["sizes"]) for name, match in _matched(texts, DIM, fix, zero=zero)}


def shapes_from(texts: Iterable[str], *, zero: bool = False) -> dict[str, GivenShape]:
    """Shapes of inputs by name, from texts such as `image=1x3x224x224`, `tokens=1x16:int64` or `scalar=`.

    Args:
        texts: as the option `--shape` takes them.
        zero: whether a dimension may have no elements.

    Raises:
        InputError: a text is not a name, sizes joined by `x`, and perhaps a dtype after a colon.
    """
    fix = "not a shape of an input: {!r}; write --shape image=1x3x224x224 or tokens=1x16:int64"
    return {
        name: GivenShape(sizes=tuple(int(size) for size in match["sizes"].split("x") if size), dtype=match["dtype"])
        for name, match in _matched(texts, SHAPE, fix, zero=zero)
    }


def _matched(
    texts: Iterable[str], pattern: re.Pattern[str], fix: str, *, zero: bool
) -> Iterator[tuple[str, re.Match[str]]]:
    """Each name with the match of what stands after its `=`; a name may hold `=` and `:` itself."""
    for text in texts:
        name, _, value = text.rpartition("=")
        match = pattern.fullmatch(value)
        if not name or match is None or (not zero and 0 in map(int, filter(None, match["sizes"].split("x")))):
            raise InputError(fix.format(text))
        yield name, match
