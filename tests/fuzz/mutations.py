"""Mutations that keep what is mutated readable: of ONNX models by their fields, of stored results by their JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

Place: TypeAlias = "tuple[Any, FieldDescriptor]"
INTEGERS = (0, 1, -1, 2, 3, 7, 16, 99, 255, -7, 2**20, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, 1e38, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    *("", "x", "N", "y", "\x1b[31mred\x1b[0m", "two\nlines", "\x9b2J", "\u202eright to left", "=1+cmd|'/c calc'!A0"),
    *("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script>", "{{ 7 * 7 }}", "../../etc/passwd"),
    *("/etc/passwd", "data.bin", "%s%n{0}", "\\x00", "a" * 200, "[bold]", "\N{SNOWMAN}", "ai.onnx.ml", "com.microsoft"),
)
"""Texts that do harm where text is printed, quoted, opened as a path or shown as a page."""
DEEP = 200
INTEGER_TYPES = (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT64)


def of_model(content: bytes, chance: random.Random, most_bytes: int) -> bytes:
    """A model file with some fields changed, moved, copied or left out; empty if the content is no model."""
    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError:
        return b""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        places = list(_places(model))
        if places:
            _change(*chance.choice(places), places, chance)
    try:
        changed = model.SerializeToString()
    except (ValueError, UnicodeEncodeError):
        return b""
    return changed if len(changed) <= most_bytes else b""


def smaller_models(content: bytes) -> Iterator[bytes]:
    """Model files with one field or item less, larger parts first."""
    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError:
        return
    sizes = []
    for number, (message, field) in enumerate(_places(model)):
        if field.is_repeated:
            sizes += [(_size(value), number, index) for index, value in enumerate(getattr(message, field.name))]
        else:
            sizes.append((_size(getattr(message, field.name)), number, -1))
    for _, number, index in sorted(sizes, reverse=True):
        copy = onnx.ModelProto.FromString(content)
        message, field = list(_places(copy))[number]
        if index < 0:
            message.ClearField(field.name)
        else:
            del getattr(message, field.name)[index]
        yield copy.SerializeToString()


def _size(value: Any) -> int:
    return value.ByteSize() if hasattr(value, "ByteSize") else len(str(value))


def _places(message: Any) -> Iterator[Place]:
    """Every field that is set in a message or in a message within it."""
    for field, value in message.ListFields():
        yield message, field
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            for item in value if field.is_repeated else [value]:
                yield from _places(item)


def _change(message: Any, field: FieldDescriptor, places: Sequence[Place], chance: random.Random) -> None:
    name = field.name
    alike = [getattr(other, place.name) for other, place in places if place.full_name == field.full_name]
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if not field.is_repeated:
            if chance.random() < 0.3:
                message.ClearField(name)
            else:
                _set_unset(getattr(message, name), chance)
            return
        items = getattr(message, name)
        match chance.randrange(6):
            case 0 if items:
                del items[chance.randrange(len(items))]
            case 1 if items:
                items.add().CopyFrom(chance.choice(items))
            case 2:
                given = chance.choice(alike)
                if given:
                    # By way of a copy: one that holds `items` itself would grow while it is read, and end the process.
                    items.add().CopyFrom(_copied(chance.choice(given)))
            case 3 if len(items) > 1:
                first, second = chance.sample(range(len(items)), 2)
                kept = _copied(items[first])
                items[first].CopyFrom(items[second])
                items[second].CopyFrom(kept)
            case 4:
                _set_unset(items.add(), chance)
            case _ if items:
                _set_unset(chance.choice(items), chance)
        return
    others = [item for given in alike for item in (given if field.is_repeated else [given])]
    if not field.is_repeated:
        if chance.random() < 0.1:
            message.ClearField(name)
        else:
            setattr(message, name, _scalar(field, others, chance))
        return
    items = getattr(message, name)
    match chance.randrange(4):
        case 0 if items:
            del items[chance.randrange(len(items))]
        case 1:
            items.insert(chance.randint(0, len(items)), _scalar(field, others, chance))
        case 2:
            del items[:]
        case _ if items:
            items[chance.randrange(len(items))] = _scalar(field, others, chance)


def _copied(message: Any) -> Any:
    found = type(message)()
    found.CopyFrom(message)
    return found


def _set_unset(message: Any, chance: random.Random) -> None:
    """Set any field of a message, most often a field that was not set."""
    field = chance.choice(message.DESCRIPTOR.fields)
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if field.is_repeated:
            getattr(message, field.name).add()
        else:
            getattr(message, field.name).SetInParent()
    elif field.is_repeated:
        getattr(message, field.name).append(_scalar(field, [], chance))
    else:
        setattr(message, field.name, _scalar(field, [], chance))


def _scalar(field: FieldDescriptor, others: Sequence[Any], chance: random.Random) -> Any:
    if others and chance.random() < 0.4:
        found = chance.choice(others)
        # A text that is not in UTF-8 is read as bytes, which cannot be set.
        return found.decode(errors="replace") if field.type == field.TYPE_STRING and isinstance(found, bytes) else found
    if field.enum_type is not None:
        return chance.choice([value.number for value in field.enum_type.values])
    if field.cpp_type in INTEGER_TYPES:
        low, high = {
            FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
            FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
            FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
        }[field.cpp_type]
        return min(max(chance.choice((*INTEGERS, chance.randrange(30))), low), high)
    if field.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return chance.choice(FLOATS)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return chance.choice((b"", b"\0", b"\xff" * 8, b"\0" * 3, *(text.encode() for text in TEXTS)))
    return chance.choice(TEXTS)


def of_json(value: Any, chance: random.Random) -> Any:
    """The same JSON value with one value, at any depth, changed, left out, renamed or doubled."""
    if isinstance(value, Mapping) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        match chance.randrange(12):
            case 0:
                return {name: item for name, item in value.items() if name != key}
            case 1:
                return {chance.choice(TEXTS) if name == key else name: item for name, item in value.items()}
            case _:
                return {**value, key: of_json(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        match chance.randrange(8):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return [*value, value[at]]
            case _:
                return [*value[:at], of_json(value[at], chance), *value[at + 1 :]]
    deep: Any = []
    for _ in range(DEEP):
        deep = [deep]
    plain = (None, True, False, [], {}, "", [[]], {"a": {}}, deep, *INTEGERS, *FLOATS, *TEXTS, 10**400)
    if isinstance(value, str) and chance.random() < 0.5:
        return chance.choice(TEXTS)
    if isinstance(value, int | float) and chance.random() < 0.5:
        return chance.choice((*INTEGERS, *FLOATS, -value))
    return chance.choice(plain)


def of_lines(content: bytes, chance: random.Random, most_bytes: int) -> bytes:
    """Stored results with some lines of JSON changed, moved, doubled, cut short or left out."""
    lines = content.split(b"\n")
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(lines))
        match chance.randrange(10):
            case 0:
                del lines[at : at + 1]
                lines = lines or [b""]
            case 1:
                lines.insert(chance.randint(0, len(lines)), lines[at])
            case 2:
                lines[at] = lines[at][: chance.randint(0, len(lines[at]))]
            case _:
                try:
                    changed = of_json(json.loads(lines[at]), chance)
                    lines[at] = json.dumps(changed, separators=(",", ":")).encode()
                except (ValueError, RecursionError):
                    continue
    changed = b"\n".join(lines)
    return changed if len(changed) <= most_bytes else b""


def smaller_lines(content: bytes) -> Iterator[bytes]:
    """Stored results with one line less, or with one value less in a line."""
    lines = content.split(b"\n")
    for at in range(len(lines)):
        yield b"\n".join(lines[:at] + lines[at + 1 :])
    for at, line in enumerate(lines):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        for less in _smaller_json(value):
            yield b"\n".join([*lines[:at], json.dumps(less, separators=(",", ":")).encode(), *lines[at + 1 :]])


def _smaller_json(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key in value:
            yield {name: item for name, item in value.items() if name != key}
        for key, item in value.items():
            for less in _smaller_json(item):
                yield {**value, key: less}
    elif isinstance(value, list) and value:
        yield value[: len(value) // 2]
        yield value[1:]
        for at, item in enumerate(value):
            for less in _smaller_json(item):
                yield [*value[:at], less, *value[at + 1 :]]


def smaller_bytes(content: bytes) -> Iterator[bytes]:
    """The content without a piece of it, larger pieces first."""
    size = len(content) // 2
    while size:
        for at in range(0, len(content), size):
            yield content[:at] + content[at + size :]
        size //= 2


def json_text(text: str) -> bytes:
    """A text as it stands between the quotes of JSON."""
    return json.dumps(text, ensure_ascii=False).encode(errors="replace")[1:-1]
