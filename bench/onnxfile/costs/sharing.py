"""Which stored tensors are equal: some exporters store a shared weight several times, and it should count once.

Little is read: of tensors with equal type and shape a short sample is compared, and only tensors with equal samples are
read in full.
"""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Sequence

from bench.onnxfile.deferred import np
from bench.onnxfile.file.dtypes import bits
from bench.onnxfile.file.lazy import EXTERNAL
from bench.onnxfile.shapes.node import Value

_SAMPLE_BYTES = 256
_CHUNK_BYTES = 1 << 22


def first_of_equals(values: Sequence[Value]) -> list[int]:
    """For each stored tensor, the index of the first tensor that is equal to it.

    A tensor whose elements are all the same equals only itself: untrained biases and scales are alike, but not shared.
    """
    first = list(range(len(values)))
    alike: dict[tuple[object, ...], list[int]] = collections.defaultdict(list)
    kinds = [(value.dtype, value.shape) for value in values]
    same_kind = collections.Counter(kinds)
    for index, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        content = _bytes(value) if same_kind[kind] > 1 else None
        if content is not None:
            middle = len(content) // 2
            alike[(kind, bytes(content[middle : middle + _SAMPLE_BYTES]))].append(index)
    for indices in alike.values():
        by_content: dict[bytes, int] = {}
        for index in indices if len(indices) > 1 else ():
            content = _bytes(values[index])  # once more: some are copies, of which only one is kept at a time
            if content is not None and not _is_uniform(content, values[index].dtype):
                first[index] = by_content.setdefault(hashlib.sha256(content).digest(), index)
    return first


def _bytes(value: Value) -> memoryview | None:
    """The bytes of a stored tensor, mapped where they are on disk; None where they cannot be read."""
    tensor, stored = value.tensor, value.stored
    if tensor is None or stored is None or not stored.has(tensor):
        return None
    if tensor.data_location == EXTERNAL:
        return stored.data(tensor)
    if tensor.HasField("raw_data"):
        return memoryview(tensor.raw_data)
    return memoryview(stored.array(tensor).tobytes()) if bits(value.dtype) else None


def _is_uniform(content: memoryview, dtype: int) -> bool:
    """Whether all elements are the same, and so each of them equals the next."""
    size = max(bits(dtype) // 8, 1)
    data = np.frombuffer(content, np.uint8)
    elements, following = data[:-size], data[size:]
    starts = range(0, len(following), _CHUNK_BYTES)
    return all(np.array_equal(elements[at : at + _CHUNK_BYTES], following[at : at + _CHUNK_BYTES]) for at in starts)
