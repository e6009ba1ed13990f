"""Which stored tensors are equal: some exporters store a shared weight several times, and it should count once.

Little is read: of tensors with equal type and shape a short sample is compared, and only tensors with equal samples are
compared in full.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence

from bench.graphs.deferred import np
from bench.graphs.file.dtypes import bits
from bench.graphs.file.lazy import EXTERNAL
from bench.graphs.shapes.node import Value

SAMPLE_BYTES = 256
CHUNK_BYTES = 1 << 22


def first_of_equals(values: Sequence[Value]) -> list[int]:
    """For each stored tensor, the index of the first tensor that is equal to it.

    A tensor whose elements are all the same equals only itself: untrained biases and scales are alike, but not shared.
    """
    first = list(range(len(values)))
    alike: dict[tuple[object, ...], list[int]] = collections.defaultdict(list)
    kinds = [(value.dtype, value.shape) for value in values]
    same_kind = collections.Counter(kinds)
    for index, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        if same_kind[kind] > 1 and value.tensor is not None:
            content = _bytes(value)
            if content is not None:
                alike[(kind, _sample(content))].append(index)
    for indices in alike.values():
        if len(indices) == 1:
            continue
        distinct: list[int] = []
        for index in indices:
            content = _bytes(values[index])
            assert content is not None
            equal = next((other for other in distinct if _equal(content, _bytes(values[other]))), None)
            if equal is not None and not _is_uniform(content, values[index].dtype):
                first[index] = equal
            elif equal is None:
                distinct.append(index)
    return first


def _bytes(value: Value) -> memoryview | None:
    """The bytes of a tensor, mapped where they are on disk; None where they cannot be read."""
    tensor, stored = value.tensor, value.stored
    assert tensor is not None
    assert stored is not None
    if tensor.data_location == EXTERNAL:
        return stored.data(tensor) if stored.has(tensor) else None
    if tensor.HasField("raw_data"):
        return memoryview(tensor.raw_data)
    return memoryview(stored.array(tensor).tobytes()) if bits(value.dtype) else None


def _sample(content: memoryview) -> bytes:
    """Some bytes from the middle."""
    start = len(content) // 2
    return bytes(content[start : start + SAMPLE_BYTES])


def _is_uniform(content: memoryview, dtype: int) -> bool:
    """Whether all elements are the same."""
    size = max(bits(dtype) // 8, 1)
    if len(content) <= size or len(content) % size:
        return len(content) <= size
    rows = np.frombuffer(content, np.uint8).reshape(-1, size)
    step = CHUNK_BYTES // size
    return all(bool((rows[start : start + step] == rows[0]).all()) for start in range(0, len(rows), step))


def _equal(one: memoryview, other: memoryview | None) -> bool:
    if other is None or len(one) != len(other):
        return False
    first, second = np.frombuffer(one, np.uint8), np.frombuffer(other, np.uint8)
    starts = range(0, len(first), CHUNK_BYTES)
    return all(np.array_equal(first[at : at + CHUNK_BYTES], second[at : at + CHUNK_BYTES]) for at in starts)
