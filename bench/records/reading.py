"""Reading a result file: the lines that fit the schema, and what is wrong with those that do not.

A line that does not fit is set aside; it stays in the file, and all other lines count. Nothing here opens a file or
raises an error for what a file holds.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from bench.api.printable import printable
from bench.records import forward_compat, migrations, validation
from bench.records.lines import SCHEMA, Header, Line, Quality, WiderQuality, any_kind, by_kind

LONGEST_LINE = 2**26
"""Bytes of the longest line that is read."""
_BEGINNING = b'{"kind":'
"""The beginning of every line that the store writes."""
_LONGEST_REASON = 300
_MOST_TOLD = 5
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PLACE = re.compile(r" - at `\$\.?(.*)`$")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Damage:
    """A line that was set aside, or a whole file.

    Attributes:
        reason: what is wrong, in one line.
        field: the field that does not fit, such as `memory.phases`; None where it is no single field.
        number: number of the line, from 1; None for a whole file.
        path: the file; None for lines that were read from no file.
    """

    reason: str
    field: str | None = None
    number: int | None = None
    path: Path | None = None

    def __str__(self) -> str:
        """The place and the reason, in one line without control characters."""
        line = f"line {self.number}" if self.number is not None else None
        place = ", ".join(filter(None, (str(self.path) if self.path else None, line, self.field)))
        reason = self.reason if len(self.reason) <= _LONGEST_REASON else f"{self.reason[:_LONGEST_REASON]}..."
        return printable(f"{place}: {reason}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """The content of a result file.

    Attributes:
        lines: the header first, then the other lines in their order; empty without a header that fits.
        damages: the lines that were set aside, in their order.
    """

    lines: tuple[Line, ...] = ()
    damages: tuple[Damage, ...] = ()


def read(file: BinaryIO, *, key: str | None = None) -> Reading:
    """Read the lines of a result file.

    The header is the first line that fits a header, wherever it stands: `bench run` writes a header anew at the end of
    a file whose header is damaged, and the lines above it count again. Lines of a kind that only a newer version knows
    are passed over.

    Args:
        file: the file, at its beginning.
        key: the key that the header must have; None for any.
    """
    header: Header | None = None
    others: list[Line] = []
    damages: list[Damage] = []
    texts = list(_texts(file))
    schemas = {number: version for number, text in texts if text and (version := _schema_of(text)) is not None}
    schema = next(filter(migrations.is_known, schemas.values()), None)
    if schema is None and schemas:
        number, other = next(iter(schemas.items()))
        return Reading(damages=(Damage(field="schema", number=number, reason=_other_schema(other)),))
    for number, text in texts:
        line = Damage(reason=f"it is longer than {LONGEST_LINE} bytes") if text is None else _line(text, schema)
        if number in schemas and not migrations.is_known(schemas[number]):
            line = Damage(field="schema", reason=_other_schema(schemas[number]))
        if isinstance(line, Header) and key is not None and line.key != key:
            line = Damage(field="key", reason=f"{line.key!r}, but the file is named {key}.jsonl")
        if isinstance(line, Damage):
            damages.append(dataclasses.replace(line, number=number))
        elif isinstance(line, Header):
            header = header or line
        elif line is not None:
            others.append(line)
    if header is None:
        return Reading(damages=_headless(damages, others))
    return Reading(lines=(header, *others), damages=tuple(damages))


def _headless(damages: Sequence[Damage], others: Sequence[Line]) -> tuple[Damage, ...]:
    """What is told of a file without a header: no line of it counts."""
    if damages:
        return (dataclasses.replace(damages[0], reason=f"{damages[0].reason}; no line of the file counts"),)
    return (Damage(number=1, reason="it is no header; no line of the file counts"),) if others else ()


def is_cut(text: bytes) -> bool:
    """Whether a text without a newline is the beginning of a line whose writing was cut short."""
    try:
        msgspec.json.decode(text)
    except ValueError as error:
        return _BEGINNING[: len(text)] == text[: len(_BEGINNING)] and "truncated" in str(error)
    except RecursionError:
        pass
    return False


def note_of(damages: Sequence[Damage]) -> str | None:
    """One line that tells of all lines that were set aside; None where all lines were read."""
    if not damages:
        return None
    shown, num_more = damages[:_MOST_TOLD], len(damages) - _MOST_TOLD
    more = f"; and {num_more} more" if num_more > 0 else ""
    many = "1 part" if len(damages) == 1 else f"{len(damages)} parts"
    where = "; ".join(map(str, shown)) + more
    return f"{many} of the stored results cannot be read, and the rest is taken without: {where}"


def _texts(file: BinaryIO) -> Iterable[tuple[int, bytes | None]]:
    """The lines of a file with their numbers; None in place of a line that is too long to read."""
    number = 0
    while text := file.readline(LONGEST_LINE):
        number += 1
        if len(text) < LONGEST_LINE or text.endswith(b"\n"):
            yield number, text.rstrip(b"\n")
            continue
        while (rest := file.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
            pass
        yield number, None


def _schema_of(text: bytes) -> int | None:
    """The version of the lines, where a text is a header that says so."""
    if b'"schema"' not in text:
        return None
    try:
        fields = _FIELDS.decode(text)
        if msgspec.json.decode(fields["kind"]) == "cell":
            return msgspec.json.decode(fields["schema"], type=int)
    except (ValueError, KeyError, RecursionError):
        pass
    return None


def _other_schema(schema: int) -> str:
    return f"{schema}, of another version of `bench`: this one reads {migrations.OLDEST} to {SCHEMA}"


@functools.cache
def _decoder() -> msgspec.json.Decoder[Line]:
    return msgspec.json.Decoder(any_kind())


def _line(text: bytes, schema: int | None) -> Line | Damage | None:
    """A text as a line; None for a kind that is unknown here."""
    try:
        if schema is not None and schema < SCHEMA:
            line = msgspec.convert(migrations.migrated(msgspec.json.decode(text), schema), any_kind())
        else:
            line = _decoder().decode(text)
        whole = _wider(line, text) if isinstance(line, Quality) else line
    except RecursionError:
        return Damage(reason="it is nested too deeply")
    except UnicodeDecodeError as error:
        return Damage(reason=f"it is not UTF-8: {error.reason}")
    except ValueError as error:
        return None if _is_of_unknown_kind(text) else _damage(str(error))
    if (fault := validation.of(line)) is not None:
        return Damage(field=fault.field, reason=fault.reason)
    return whole


def _damage(message: str) -> Damage:
    """A message of msgspec, with the field that it names."""
    place = _PLACE.search(message)
    if place is None:
        return Damage(reason=message)
    return Damage(field=place[1] or None, reason=message[: place.start()])


def _is_of_unknown_kind(text: bytes) -> bool:
    try:
        fields = _FIELDS.decode(text)
        kind = msgspec.json.decode(fields["kind"], type=str)
        msgspec.json.decode(text)
    except (ValueError, KeyError, RecursionError):
        return False
    return kind not in by_kind()


def _wider(line: Quality, text: bytes) -> Quality:
    """A quality with the fields of its text that are unknown here, at any depth, where there are some."""
    stored = msgspec.json.decode(text)
    if stored == msgspec.json.decode(msgspec.json.encode(line)):  # as most are, and that is quick to see
        return line
    fields = tuple(forward_compat.beyond(stored, msgspec.to_builtins(line)))
    return WiderQuality(**msgspec.structs.asdict(line), unknown=fields) if fields else line
