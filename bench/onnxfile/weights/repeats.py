"""Numbers that a file stores more than once: the same array again, its transposition, or the same rows in fewer bits.

Some exporters write a shared table a second time where they fold a transposition, and some write a shared layer once
for each of its uses. Arrays whose elements are all the same equal nothing: untrained biases are alike, but not shared.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
from collections.abc import Callable, Hashable, Iterable, Sequence

from bench.onnxfile.deferred import np

_MOST_NAMED = 2
"""Sets of equal arrays that a sentence names; it counts the further ones."""
LONGEST_NAME = 60
_BLOCK = 32
"""Elements that are compared at a time: most quantizers give so many, or a multiple of them, one scale."""
_LEAST_ALIKE = 0.6
"""Correlation of most blocks of two arrays with the same numbers in different types; that of others is about 0.12."""
_LEAST_COMPARED, _MOST_COMPARED = 1024, 1 << 22
"""Elements of an array that is compared with arrays of other types: a few correlate by chance."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weight:
    """An array of parameters in a file.

    Attributes:
        num_params: how many parameters it holds.
        array: reads its elements; integers of 4 bits may come packed, the first of two in the lower half of a byte.
    """

    name: str
    num_params: int
    array: Callable[[], np.ndarray]

    def numbers(self) -> np.ndarray:
        """The elements in types of NumPy: those of ONNX's narrow types have neither a buffer nor a kind."""
        array = self.array()
        if array.dtype.isbuiltin == 1:
            return array
        name = array.dtype.name
        is_integer = name.startswith(("int", "uint"))
        return array.astype((np.int8 if name.startswith("int") else np.uint8) if is_integer else np.float32)


def sentence(weights: Iterable[Weight]) -> str | None:
    """A sentence without its end that says which arrays a file stores more than once; None where there are none."""
    alike: dict[int, list[Weight]] = collections.defaultdict(list)
    for weight in weights:
        alike[weight.num_params].append(weight)
    sets = [group for members in alike.values() if len(members) > 1 for group in _sets(members)]
    if not sets:
        return None
    sets.sort(key=lambda members: -members[0].num_params * (len(members) - 1))
    total = sum(members[0].num_params * (len(members) - 1) for members in sets)
    parts = [_named(members) for members in sets[:_MOST_NAMED]]
    if len(sets) > _MOST_NAMED:
        parts.append(f"{len(sets) - _MOST_NAMED:,} more")
    return f"{total:,} are stored again: {', '.join(parts)}"


def _named(members: Sequence[Weight]) -> str:
    first, second, *others = (_short(member.name) for member in members)
    return f"{first} as {second}" + (f" and {len(others)} more" if others else "")


def _short(name: str) -> str:
    half = LONGEST_NAME // 2
    return name if len(name) <= LONGEST_NAME else f"{name[:half]}...{name[-half:]}"


def _sets(members: Sequence[Weight]) -> list[list[Weight]]:
    """Sets of two or more arrays that hold the same numbers, of arrays with as many parameters."""
    by_sample: dict[Hashable, list[Weight]] = collections.defaultdict(list)
    for member in members:
        if (sample := _sample(member.numbers())) is not None:
            by_sample[sample].append(member)
    sets: list[list[Weight]] = []
    for likely in by_sample.values():
        by_content: dict[bytes, list[Weight]] = collections.defaultdict(list)
        for member in likely if len(likely) > 1 else ():
            by_content[_digest(member.numbers())].append(member)
        sets += [equal for equal in by_content.values() if len(equal) > 1]
    firsts = {id(member) for equal in sets for member in equal[1:]}
    return sets + _in_fewer_bits([member for member in members if id(member) not in firsts])


def _sample(array: np.ndarray) -> Hashable | None:
    """A value that is equal for an array and its transposition; None for an array whose elements are all the same."""
    if array.size < 2 or (array == array.reshape(-1)[0]).all():
        return None
    flat = array.reshape(-1)
    return (array.dtype.str, flat[:1].tobytes(), flat[-1:].tobytes())


def _digest(array: np.ndarray) -> bytes:
    """Equal for an array, the same elements in another shape, and the transposition of a matrix."""
    matrix = array.squeeze()
    ways = [matrix, matrix.T] if matrix.ndim == 2 else [matrix]
    return min(hashlib.sha256(np.ascontiguousarray(way).data).digest() for way in ways)


def _in_fewer_bits(members: Sequence[Weight]) -> list[list[Weight]]:
    """Pairs of an array of floats and an array of integers that quantization made of them."""
    integers = [member for member in members if member.numbers().dtype.kind in "iu"]
    floats = [member for member in members if member.numbers().dtype.kind == "f"]
    if not integers or members[0].num_params < _LEAST_COMPARED:
        return []
    pairs = []
    for member in floats:
        other = next((each for each in integers if _correlates(member.numbers(), _unpacked(each))), None)
        if other is not None:
            integers.remove(other)
            pairs.append([member, other])
    return pairs


def _unpacked(weight: Weight) -> np.ndarray:
    array = weight.numbers()
    if array.size * 2 == weight.num_params:
        low, high = array.view(np.uint8) & 15, array.view(np.uint8) >> 4
        return np.stack([low, high], -1).reshape(-1)
    return array


def _correlates(floats: np.ndarray, codes: np.ndarray) -> bool:
    """Whether floats go up and down as codes do, or the other way round, within most blocks: signs of scales differ."""
    matrix = floats.squeeze()
    if codes.size != floats.size or codes.size % _BLOCK:
        return False
    right = _centred(codes)
    ways = [matrix, matrix.T] if matrix.ndim == 2 else [matrix]
    return any(
        float(np.median(np.abs((_centred(np.ascontiguousarray(way)) * right).sum(-1)))) >= _LEAST_ALIKE for way in ways
    )


def _centred(array: np.ndarray) -> np.ndarray:
    """Blocks of elements with a mean of 0 and a length of 1; those of equal elements are 0."""
    blocks = array.reshape(-1, _BLOCK)[: _MOST_COMPARED // _BLOCK].astype(np.float32)
    blocks -= blocks.mean(-1, keepdims=True)
    length = np.sqrt((blocks**2).sum(-1, keepdims=True))
    return np.divide(blocks, length, out=np.zeros_like(blocks), where=length > 0)
