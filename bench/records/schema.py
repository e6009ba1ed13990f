"""The schema of stored results as JSON Schema and as a page of the docs, both made from the structs of the lines.

`python -m bench.records.schema docs` writes both files anew (`make schema`).
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bench.api.artifact import Facts
from bench.measure.machine import State
from bench.measure.memory import Memory, Phase
from bench.records import line_fault, validation
from bench.records.lines import SCHEMA, Cost, Generation, Placed, ThreadLaunch, any_kind, by_kind
from bench.records.metric_loss import Lost
from bench.records.store import write_atomically

JSON_SCHEMA, PAGE = "results.schema.json", "stored-results.md"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
PARTS = (Facts, Cost, Placed, Generation, Lost, State, Memory, Phase)
"""The objects within lines."""
_ATTRIBUTE = re.compile(r"^    (\w+(?:, \w+)*): (.*)$")
_INTRODUCTION = f"""\
# Stored results

`results/<machine>/<key>.jsonl` holds what was measured of one cell: [JSON Lines](https://jsonlines.org) in UTF-8, each
an object whose `kind` says what it is. This page and [{JSON_SCHEMA}]({JSON_SCHEMA}), a JSON Schema of one line, are
made from the code that reads the files (`make schema`). The version of the schema is {SCHEMA}.

- The first line is the header, of kind `cell`. A file of an earlier version is read as a file of this version, and its
  lines stay as they are. A file of a later version is set aside.
- Lines are only ever added. A `reset` takes back the launches before it; of qualities, the last counts; a failure
  counts while no other line follows.
- Lines of an unknown kind, and unknown fields at any depth, are those of a newer version: they are passed over, stay in
  the file, and go along where `bench` copies a line.
- A line that does not fit the schema is set aside, and told of in one note on the standard error stream with its file,
  its number, the field and the reason; so is a line longer than 64 MiB. `bench run` leaves it in the file and writes
  new lines below it. A last line that was cut short in the middle of a write is written over.
- Besides what the schema can say: the cell is a path of seven parts, all launches have the phases
  {", ".join(f"`{name}`" for name in validation.PHASES)}, times are ISO 8601 before the year {validation.LAST_YEAR + 1},
  the samples that differ are different samples of the split, and no number is beyond 2 to the power of 63. All headers
  of a folder describe one machine.
- `current.json` (the key of the latest record by the path of its cell) and `peaks.json` (the peaks by number of
  threads) lie beside them. Where one of them is damaged, `bench` says so and goes on without, and the command that
  fills it writes it anew.
- `models.json`, beside the folders of machines, notes which model of one's own a task's name stands for, by digests:
  another file of that name gets a name with its folder's, as `large_model` beside `model`. A file is the same where its
  place from the folder of results on is the same, whatever its content; where git tracks it, and its path and the
  address of `origin` are the same, in whichever checkout; and where its content is the same. So a model that is trained
  anew in a checkout of its own, and that git does not track, has another name in results that lie elsewhere: keep it at
  one place, or the results in the checkout. Commands that run at once take turns at it by the lock
  `.models.lock`.

A field with a default may be left out. Names of durations in nanoseconds end with `_ns`, names of sizes with `_bytes`.
The terms of this page are in the [glossary](glossary.md).
"""


def as_json_schema() -> dict[str, Any]:
    """The JSON Schema of one line, with a description of each field."""
    schema: dict[str, Any] = {"$schema": _DIALECT, "title": f"A line of stored results, version {SCHEMA}"}
    schema |= msgspec.json.schema(any_kind())
    structs: tuple[type, ...] = (*by_kind().values(), *PARTS)
    for struct in structs:
        definition = schema["$defs"][struct.__name__]
        definition["description"] = _summary(struct)
        meanings = _meanings(struct)
        for name, field in definition["properties"].items():
            if name in meanings:
                field["description"] = meanings[name]
    _bounded(schema)
    return schema


def as_page() -> str:
    """The page of the docs: each kind of line, and each object within lines, with a table of its fields."""
    definitions = as_json_schema()["$defs"]
    parts = [_INTRODUCTION]
    parts += [_section(f"`{kind}`", struct, definitions) for kind, struct in by_kind().items()]
    parts += [_section(struct.__name__, struct, definitions) for struct in PARTS]
    return "\n".join(parts)


def _section(title: str, struct: type, definitions: Mapping[str, Any]) -> str:
    definition = definitions[struct.__name__]
    if struct is ThreadLaunch:
        return f"## {title}\n\n{definition['description']} Its fields are those of `launch`.\n"
    lines = [f"## {title}", "", definition["description"], "", "| field | type | meaning |", "| --- | --- | --- |"]
    for name, field in definition["properties"].items():
        if name == "kind":
            continue
        text = _type(field)
        if "default" in field:
            text += f", default {json.dumps(field['default'])}"
        elif name not in definition["required"]:
            text += ", may be left out"
        lines.append(f"| `{name}` | {_cell(text)} | {_cell(field.get('description', ''))} |")
    return "\n".join([*lines, ""])


def _type(field: Mapping[str, Any]) -> str:
    """A type in a few words: `integer of at least 0`, `array of number`, `Facts or null`."""
    if "anyOf" in field:
        return " or ".join(map(_type, field["anyOf"]))
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in field:
        return " or ".join(map(str, field["enum"]))
    text = str(field.get("type", "anything"))
    if "prefixItems" in field:
        return f"array of {' and '.join(map(_type, field['prefixItems']))}"
    if isinstance(field.get("items"), Mapping):
        text += f" of {_type(field['items'])}"
    if isinstance(field.get("additionalProperties"), Mapping):
        text += f" of {_type(field['additionalProperties'])}"
    if "exclusiveMinimum" in field:
        text += f" above {field['exclusiveMinimum']}"
    elif field.get("minimum", -line_fault.LARGEST) > -line_fault.LARGEST:
        text += f" of at least {field['minimum']:g}"
    return text


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _bounded(node: object) -> None:
    """Give each whole number that has no bounds those of all numbers."""
    if isinstance(node, dict):
        if node.get("type") == "integer":
            if "exclusiveMinimum" not in node:
                node.setdefault("minimum", -line_fault.LARGEST)
            node.setdefault("maximum", line_fault.LARGEST)
        for value in node.values():
            _bounded(value)
    elif isinstance(node, list):
        for value in node:
            _bounded(value)


def _summary(struct: type) -> str:
    return " ".join(_doc(struct).partition("\n\n")[0].split())


def _meanings(struct: type) -> dict[str, str]:
    """What each field means, from the section `Attributes` of a struct and of those it is derived from."""
    meanings: dict[str, str] = {}
    for each in reversed(struct.__mro__):
        if not dataclasses.is_dataclass(each) and not issubclass(each, msgspec.Struct):
            continue
        meanings |= _attributes(_doc(each).partition("Attributes:\n")[2].split("\n"))
    return meanings


def _attributes(lines: Iterable[str]) -> dict[str, str]:
    meanings: dict[str, str] = {}
    names: list[str] = []
    for line in lines:
        if match := _ATTRIBUTE.match(line):
            names = match[1].split(", ")
            meanings |= dict.fromkeys(names, match[2])
        elif line.startswith("     ") and names:
            meanings |= {name: f"{meanings[name]} {line.strip()}" for name in names}
        elif line.strip():
            break
    return meanings


def _doc(struct: type) -> str:
    return inspect.cleandoc(struct.__doc__ or "")


def write(folder: Path) -> None:
    """Write the JSON Schema and the page.

    Raises:
        StoreError: a file cannot be written.
    """
    write_atomically(folder / JSON_SCHEMA, json.dumps(as_json_schema(), indent=1) + "\n")
    write_atomically(folder / PAGE, as_page())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
