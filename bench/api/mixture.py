"""A choice for each part of a model, such as the precision of each node with weights, spelled as text: `2f10s1f`."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Sequence

from bench.api.errors import RefusedError

LONGEST = 1000
"""Characters of the longest spelling: it is a part of a cell's path."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a model that a variant can treat in several ways.

    Attributes:
        name: what the variant calls it.
        operator: its type, such as `Conv`.
        alike: equal for parts that are expected to act alike, such as those of one shape.
        letters: the choices that it has; the first leaves it as it is.
        num_weights: numbers in its weights.
        weights: equal for parts that read the same stored weights, which are stored once as long as all of these have
            one letter; empty where that is not known.
    """

    name: str
    operator: str
    alike: str
    letters: str
    num_weights: int
    weights: str = ""


def is_spelled(text: str, letters: Iterable[str]) -> bool:
    """Whether a text spells a choice of some letters for each part; the number of the parts is not known here."""
    each = "".join(letters)
    if not each or len(text) > LONGEST:
        return False
    return re.fullmatch(rf"(([1-9]\d{{0,5}})?[{each}])+", text) is not None


def spell(letters: Iterable[str]) -> str:
    """A choice for each part as text: runs of one letter with their lengths, such as `3d1f` for `dddf`."""
    return "".join(f"{len(list(run))}{letter}" for letter, run in itertools.groupby(letters))


def chosen(text: str, parts: Sequence[Part]) -> dict[str, list[str]]:
    """Names of the parts by their letter.

    Args:
        text: what `is_spelled` accepts.
        parts: all parts of the model, in order.

    Raises:
        RefusedError: the text is about another number of parts, or chooses what a part does not have.
    """
    runs = [(int(length or 1), letter) for length, letter in re.findall(r"(\d*)(\D)", text)]
    total = sum(length for length, _ in runs)
    if total != len(parts):
        raise RefusedError(f"{text} is for {total} parts, and the model has {len(parts)}")
    names: dict[str, list[str]] = {}
    letters = (letter for length, letter in runs for _ in range(length))
    for number, (part, letter) in enumerate(zip(parts, letters, strict=True), start=1):
        if letter not in part.letters:
            raise RefusedError(f"part {number}, a {part.operator}, can be {', '.join(part.letters)}, not {letter}")
        names.setdefault(letter, []).append(part.name)
    return names
