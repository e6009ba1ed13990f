"""Reads Universal Binary JSON as XGBoost writes it; no length in it is believed that the file does not hold.

Source: the draft 12 of https://ubjson.org.
"""

from __future__ import annotations

from typing import Any

from bench.onnxfile.deferred import np

_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
"""NumPy's types of the numbers."""
PLAIN = {"T": True, "F": False, "Z": None, "N": None}
_DEEPEST = 50


class Reader:
    """Reads one value from bytes.

    Args:
        content: the bytes of the whole file.
    """

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def value(self) -> Any:
        """The value: dicts, lists, NumPy arrays of typed numbers, texts, numbers, bools and None.

        Raises:
            ValueError: the bytes are no such value, or end before it does.
        """
        document = self._value(self._marker(), 0)
        if self._at != len(self._content):
            raise ValueError(f"more follows at byte {self._at}")
        return document

    def _marker(self) -> str:
        return self._take(1).decode("latin-1")

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._content) - self._at:
            raise ValueError(f"it ends early: {size} bytes are missing at byte {self._at}")
        self._at += size
        return self._content[self._at - size : self._at]

    def _value(self, marker: str, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError(f"it is nested more than {_DEEPEST} deep")
        if marker in _NUMBERS:
            (number,) = np.frombuffer(self._take(np.dtype(_NUMBERS[marker]).itemsize), _NUMBERS[marker]).tolist()
            return number
        if marker in PLAIN:
            return PLAIN[marker]
        if marker == "C":
            return self._take(1).decode()
        if marker == "S":
            return self._take(self._length()).decode()
        if marker == "{":
            return self._object(depth)
        if marker == "[":
            return self._array(depth)
        raise ValueError(f"no value begins with {marker!r} at byte {self._at - 1}")

    def _length(self) -> int:
        length = self._value(self._marker(), _DEEPEST)
        if not isinstance(length, int) or isinstance(length, bool):
            raise ValueError(f"a length is no whole number at byte {self._at}")
        return length

    def _object(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while self._content[self._at : self._at + 1] != b"}":
            key = self._take(self._length()).decode()
            if key in members:
                raise ValueError(f"it has the key {key!r} twice")
            members[key] = self._value(self._marker(), depth + 1)
        self._take(1)
        return members

    def _array(self, depth: int) -> Any:
        if self._content[self._at : self._at + 1] == b"$":
            self._take(1)
            marker = self._marker()
            if marker not in _NUMBERS or self._take(1) != b"#":
                raise ValueError(f"an array of the type {marker!r} cannot be read at byte {self._at}")
            dtype = np.dtype(_NUMBERS[marker])
            return np.frombuffer(self._take(self._length() * dtype.itemsize), dtype)
        if self._content[self._at : self._at + 1] == b"#":
            self._take(1)
            count = self._length()
            if not 0 <= count <= len(self._content):
                raise ValueError(f"an array has {count} items at byte {self._at}")
            return [self._value(self._marker(), depth + 1) for _ in range(count)]
        items = []
        while self._content[self._at : self._at + 1] != b"]":
            items.append(self._value(self._marker(), depth + 1))
        self._take(1)
        return items


def read(content: bytes) -> Any:
    """The value that the bytes of a file hold.

    Raises:
        ValueError: they hold none.
    """
    return Reader(content).value()
