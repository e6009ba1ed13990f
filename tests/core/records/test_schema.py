"""The published schema: it is that of the code, it fits what is stored, and it refuses what the reader refuses."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from bench.records import schema
from bench.records.lines import Failure
from support import records as made
from support.features import needs

ROOT = Path(__file__).parents[3]
VALIDATOR = jsonschema.Draft202012Validator(schema.as_json_schema())


@needs("load")
def test_the_files_in_the_docs_are_current(tmp_path: Path) -> None:
    schema.write(tmp_path)
    for path in tmp_path.iterdir():
        assert (ROOT / "docs" / path.name).read_text() == path.read_text(), "`make schema` writes them anew"
    assert {path.name for path in tmp_path.iterdir()} == {schema.JSON_SCHEMA, schema.PAGE}


def test_a_field_of_few_values_names_them() -> None:
    page = schema.as_page()
    assert "| `metric_loss_unit` | dB or share, may be left out |" in page
    assert "| anything" not in page


def test_every_field_has_a_meaning() -> None:
    for name, definition in schema.as_json_schema()["$defs"].items():
        bare = [field for field, found in definition["properties"].items() if "description" not in found]
        assert (name, bare) in ((name, ["kind"]), (name, []))


def test_stored_lines_fit() -> None:
    VALIDATOR.check_schema(VALIDATOR.schema)
    for path in sorted((ROOT / "results" / "reference").glob("*/*.jsonl"))[:20]:
        for text in path.read_text().splitlines():
            VALIDATOR.validate(json.loads(text))


@pytest.mark.parametrize(
    ("field", "value"),
    [("load_ns", -1), ("steady_ns", [[]]), ("steady_ns", [[0]]), ("launch", None), ("num_requests", 0)],
)
def test_what_does_not_fit_is_refused(field: str, value: object) -> None:
    line = json.loads(msgspec.json.encode(made.launch("a", "cell", 1)))
    assert VALIDATOR.is_valid(line)
    assert not VALIDATOR.is_valid({**line, field: value})


def test_a_field_without_a_default_is_required() -> None:
    line = msgspec.to_builtins(Failure(stage="open", reason="it broke"))
    assert VALIDATOR.is_valid(line)
    assert not VALIDATOR.is_valid({name: value for name, value in line.items() if name != "reason"})
