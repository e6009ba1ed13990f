"""An ONNX file read without its weights: large tensors stay on disk and are mapped into memory when they are used.

The file is mapped and gone through field by field, and the bytes of large tensors are left out of the message that is
parsed. In their place the tensor states where they lie, as a tensor with external data does.

Source: protobuf's wire format, https://protobuf.dev/programming-guides/encoding/, and onnx.proto for field numbers.
"""

from __future__ import annotations

import dataclasses
import math
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from bench.api.errors import InputError
from bench.api.files import opened, refuse_special
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file.dtypes import bits
from bench.onnxfile.file.expansion import check_expansion
from bench.onnxfile.file.valid import check_model

Buffer: TypeAlias = "memoryview | bytes"

HERE = "\0"
"""The location of data that lie in the ONNX file itself: no file can have this name."""
_SMALL_BYTES = 4096
"""Messages of at most this size are parsed whole."""
_MOST_LEVELS = 100  # of messages in one another, beyond which protobuf parses nothing
EXTERNAL = 1  # of onnx.TensorProto.DataLocation
_VARINT, _FIXED_64, _LENGTH, _FIXED_32 = 0, 1, 2, 5
_FIELDS = {
    "model": {7: "graph", 25: "function"},
    "function": {7: "node"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
"""Fields of each message that may hold a large tensor, each with the kind of message that it holds."""
_PLAIN_DATA = (9, 4, 10)
"""Fields of a tensor that hold its elements one after the other, little-endian: raw_data, float_data, double_data."""


def _entry(key: bytes, value: bytes) -> bytes:
    """An entry of a tensor's external_data; key and value must be shorter than 64 bytes."""
    content = b"\x0a%c%b\x12%c%b" % (len(key), key, len(value), value)
    return b"%c%c%b" % (13 << 3 | _LENGTH, len(content), content)


_LIES_HERE = bytes((14 << 3 | _VARINT, 1)) + _entry(b"location", HERE.encode())
"""The fields data_location and external_data of a tensor whose data are in the same file."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stored:
    """A model whose large tensors are on disk.

    Attributes:
        model: tensors with external data have not been loaded; those with the location `HERE` lie in the file itself.
        path: of the file; None for a model in memory.
        is_whole: whether it is known that no tensor lies in another file.
        files: the files that have been mapped so far, by location.
    """

    model: onnx.ModelProto
    path: Path | None
    is_whole: bool = False
    files: dict[str, memoryview] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def has(self, tensor: onnx.TensorProto) -> bool:
        """Whether the elements can be read: those of a model in memory cannot be if they lie in another file."""
        return self.path is not None or tensor.data_location != EXTERNAL

    def data(self, tensor: onnx.TensorProto) -> memoryview:
        """The bytes of a tensor whose data are external; they are mapped, and read from the disk when they are used.

        Raises:
            InputError: the file does not exist, lies outside the model's folder, or is too short.
        """
        assert self.path is not None
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location, where, how_long = (entries.get(key, "") for key in ("location", "offset", "length"))
        if location not in self.files:
            self.files[location] = _mapped(self.path if location == HERE else _inside(self.path.parent, location))
        file = self.files[location]
        try:
            offset = int(where or 0)
            length = int(how_long or len(file) - offset)
        except ValueError as error:
            raise InputError(f"the place of tensor {tensor.name!r} in its external data is no number") from error
        if offset < 0 or length < 0 or offset + length > len(file):
            raise InputError(f"its external data {location!r} end before those of the tensor {tensor.name!r} do")
        return file[offset : offset + length]

    def data_bytes(self, message: Any) -> int:
        """Size of the data of all tensors of a message, such as the model, that are on disk.

        Raises:
            InputError: as `data`.
        """
        return sum(len(self.data(tensor)) for tensor in external_tensors(message))

    def data_files(self) -> list[Path]:
        """Paths of the other files that hold data of the model's tensors, sorted.

        Raises:
            InputError: as `data`.
        """
        for tensor in external_tensors(self.model):
            self.data(tensor)
        assert self.path is not None
        return sorted(self.path.parent.resolve() / location for location in self.files if location != HERE)

    def array(self, tensor: onnx.TensorProto) -> np.ndarray:
        """The elements of a tensor as a NumPy array; external data are copied into memory.

        Raises:
            InputError: as `data`, or the external data are not as long as the elements.
        """
        if tensor.data_location == EXTERNAL:
            raw_data = self._raw_data(tensor)
            tensor = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, raw_data=raw_data)
        if tensor.data_type == tensor.INT64 and tensor.raw_data:  # shapes, in a quarter of the time
            return np.frombuffer(tensor.raw_data, "<i8").reshape(tensor.dims)
        return onnx.numpy_helper.to_array(tensor)

    def embed(self, message: Any) -> None:
        """Load into a message, such as the model or a copy of one of its nodes, the data of its tensors on disk.

        Raises:
            InputError: as `array`.
        """
        for tensor in external_tensors(message):
            tensor.raw_data = self._raw_data(tensor)
            tensor.ClearField("data_location")
            tensor.ClearField("external_data")

    def _raw_data(self, tensor: onnx.TensorProto) -> bytes:
        """The data of a tensor on disk, as many as its elements take."""
        raw_data = bytes(self.data(tensor))
        needed = -(-math.prod(tensor.dims) * bits(tensor.data_type) // 8)
        if len(raw_data) != needed:
            raise InputError(f"tensor {tensor.name!r} takes {needed:,} bytes; its external data have {len(raw_data):,}")
        return raw_data


def read(path: Path) -> Stored:
    """Read an ONNX file without its weights.

    Raises:
        InputError: the file cannot be read, is no valid ONNX file, or is too large once its functions are inlined.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        file = _mapped(path)
        content = _stripped("model", file, 0, len(file))
        model = onnx.ModelProto.FromString(content)
        if not model.HasField("graph") or not model.opset_import:  # protobuf reads nearly any text as unknown fields
            raise ValueError("it has no graph or no opset")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (DecodeError, ValueError, IndexError) as error:  # a number that the file ends in
        raise InputError(f"it is not an ONNX file, or only a part of one: {error}; export or copy it again") from error
    check_model(model)
    check_expansion(model)
    is_whole = content.count(b"location") == content.count(_LIES_HERE)  # the word stands in every external tensor
    return Stored(model=model, path=path, is_whole=is_whole, files={HERE: file})


def external_tensors(message: Any) -> Iterator[onnx.TensorProto]:
    """All tensors within a protobuf message, at any depth, whose data lie in another file."""
    if message.DESCRIPTOR.name == "TensorProto":
        if message.data_location == message.EXTERNAL:
            yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in [value] if hasattr(value, "DESCRIPTOR") else value:
                yield from external_tensors(item)


def _inside(folder: Path, location: str) -> Path:
    """The path of a file of external data, which may lie nowhere but in the model's folder.

    Raises:
        InputError: the file lies elsewhere, does not exist, or is no regular file.
    """
    home = folder.resolve()
    if "\0" in location:
        raise InputError(f"its external data {location!r} name no file")
    file = home / location
    if Path(location).is_absolute() or ".." in Path(location).parts or not file.resolve().is_relative_to(home):
        raise InputError(f"its external data {location!r} lie outside its folder, where nothing is read")
    refuse_special(file)
    if not file.is_file():
        raise InputError(f"its external data {location!r} are not in its folder")
    return file


def _mapped(path: Path) -> memoryview:
    with opened(path) as file:
        if os.fstat(file.fileno()).st_size == 0:  # an empty file cannot be mapped
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _stripped(kind: str, file: memoryview, first: int, last: int, depth: int = 0) -> bytes:
    """The message at `file[first:last]`, which lies in `depth` others, without the bytes of its large tensors."""
    if depth > _MOST_LEVELS:
        raise ValueError(f"its messages lie more than {_MOST_LEVELS} deep within one another, which protobuf refuses")
    from google.protobuf.internal.encoder import TagBytes, _VarintBytes  # type: ignore[import-untyped]

    inner = _FIELDS[kind]
    parts: list[Buffer] = []
    kept_from = first
    for number, at, begin, end in _fields(file, first, last, _SMALL_BYTES):
        if number in inner:
            if inner[number] == "tensor":
                content = _stripped_tensor(file, begin, end)
            else:
                content = _stripped(inner[number], file, begin, end, depth + 1)
            parts += (file[kept_from:at], TagBytes(number, _LENGTH), _VarintBytes(len(content)), content)
            kept_from = end
    parts.append(file[kept_from:last])
    return b"".join(parts)


def _stripped_tensor(file: memoryview, first: int, last: int) -> bytes:
    data = [field for field in _fields(file, first, last, 0) if field[0] in _PLAIN_DATA]
    if len(data) != 1:  # elements of another kind, or an encoder wrote the data in several pieces
        return bytes(file[first:last])
    ((_, at, begin, end),) = data
    place = (_LIES_HERE, _entry(b"offset", b"%d" % begin), _entry(b"length", b"%d" % (end - begin)))
    return b"".join((file[first:at], file[end:last], *place))


def _fields(file: memoryview, at: int, last: int, least: int) -> Iterator[tuple[int, int, int, int]]:
    """Iterate over the fields of the message at `file[at:last]` whose content is longer than `least` bytes.

    Yields:
        The number of the field, where the field begins, and where its content begins and ends.

    Raises:
        ValueError: the message is damaged. Damage that shows in no length is left for protobuf to find.
    """
    from google.protobuf.internal.decoder import _DecodeVarint  # type: ignore[import-untyped]

    while at < last:
        key, begin = file[at], at + 1
        if key > 0x7F:
            key, begin = _DecodeVarint(file, at)
        kind = key & 7
        if kind == _LENGTH:
            length, begin = file[begin], begin + 1
            if length > 0x7F:
                length, begin = _DecodeVarint(file, begin - 1)
            end = begin + length
            if end > last:
                raise ValueError("a field is longer than what is there")
            if length > least:
                yield key >> 3, at, begin, end
        elif kind == _VARINT:
            _, end = _DecodeVarint(file, begin)
        elif kind in (_FIXED_32, _FIXED_64):
            end = begin + (4 if kind == _FIXED_32 else 8)
        else:
            raise ValueError("a field has a kind that is not in use")
        at = end
