"""Reading: a line that does not fit is set aside and told of with its place and field; all other lines stand."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from bench.api.artifact import Facts
from bench.measure.machine import State
from bench.records import reading
from bench.records.lines import SCHEMA, Cost, Failure, Header, Line, Placed, Quality, Reset, WiderQuality
from bench.records.metric_loss import Lost
from bench.records.reading import Damage
from support import records as made

PUBLISHED = Path(__file__).parents[3] / "results" / "reference"
OLD = Path(__file__).parent / "samples" / "schema-1.jsonl"
FACTS = Facts(format="null", sha256="0", size_bytes=1, operators={"Conv": 1}, info={"note": "a note", "versions": {}})
HEADER = Header(schema=SCHEMA, key="key", cell=made.HALVE, machine={"num_cores": 2}, artifact=FACTS)
QUALITY = made.quality(
    lost=Lost(num_samples=10, score=0.5, most=1.0, points=((3, 1.0), (4, -0.5))),
    cost=Cost(macs=10, weight_bytes=20),
    placement={"cpu": Placed(nodes=3, macs_share=1.0)},
    input_shapes={"image": (1, 3)},
    metrics={"accuracy": 0.75},
    time="2026-01-01T00:00:00+00:00",
)
LAUNCH = made.launch("a", "cell", 1000, machine=State(load_1m=1.0, available_bytes=5))
FAILURE = Failure(stage="open", reason="it broke", how="error", detail="a log")
LINES: tuple[Line, ...] = (HEADER, QUALITY, LAUNCH, FAILURE, Reset(launches="thread_launch"))
SPOILT: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**19, 10**400, 0.5, 1e300, "", "text", "\ud800", "../..", [], [[]], [None], {}, {"a": None}),
    *("9999-12-31T23:59:59", "0001-01-01", {"": {"": []}}),
)


def text_of(line: Line) -> str:
    return json.dumps(msgspec.to_builtins(line))


def read(*texts: str | bytes, key: str | None = "key", end: bytes = b"\n") -> reading.Reading:
    lines = [text.encode() if isinstance(text, str) else text for text in texts]
    return reading.read(io.BytesIO(b"\n".join(lines) + end), key=key)


def changed(line: Line, place: str, value: object) -> str:
    """A line with another value at a place such as `memory.phases`; nothing there where the value is `...`."""
    fields = found = msgspec.to_builtins(line)
    *names, last = place.split(".")
    for name in names:
        found = found[name]
    found.pop(last, None)
    if value is not ...:
        found[last] = value
    return json.dumps(fields)


@pytest.mark.parametrize(
    ("line", "place", "value", "field"),
    [
        (QUALITY, "fidelity", ..., None),
        (QUALITY, "rss_bytes", "many", "rss_bytes"),
        (QUALITY, "rss_bytes", 10**19, "rss_bytes"),
        (QUALITY, "metric_loss", {}, "metric_loss"),
        (QUALITY, "loss", float("nan"), None),
        (QUALITY, "loss", float("-inf"), None),
        (QUALITY, "io_bytes", -1, "io_bytes"),
        (QUALITY, "max_abs_error", -0.5, "max_abs_error"),
        (QUALITY, "lost.num_samples", 0, "lost.num_samples"),
        (QUALITY, "lost.score", 0.0, "lost.score"),
        (QUALITY, "lost.most", 1e300, "lost.most"),
        (QUALITY, "lost.points", [[10, 1.0]], "lost.points"),
        (QUALITY, "lost.points", [[1, 1.0], [1, 1.0]], "lost.points"),
        (QUALITY, "cost.macs", 10**400, "cost.macs"),
        (QUALITY, "placement.cpu.nodes", -3, "placement[...].nodes"),
        (QUALITY, "time", "yesterday", "time"),
        (LAUNCH, "memory", ..., None),
        (LAUNCH, "memory.phases.steady", ..., "memory.phases"),
        (LAUNCH, "memory.phases.load.name", ..., "memory.phases[...]"),
        (LAUNCH, "memory.phases.load.rss_bytes", [1], "memory.phases[...].rss_bytes"),
        (LAUNCH, "memory.phases.load.rss_bytes", -1, "memory.phases.load"),
        (LAUNCH, "memory.phases.load.peak_rss_bytes", 2**63, "memory.phases.load"),
        (LAUNCH, "steady_ns", [], "steady_ns"),
        (LAUNCH, "steady_ns", [[1000], []], "steady_ns[1]"),
        (LAUNCH, "steady_ns", [[1000], 1.5], "steady_ns[1]"),
        (LAUNCH, "steady_ns", [[1000], [0]], "steady_ns[1][0]"),
        (LAUNCH, "steady_ns", [[1000], [10**400]], "steady_ns[1][0]"),
        (LAUNCH, "load_ns", -1, "load_ns"),
        (LAUNCH, "cold_ns", [[-1]], "cold_ns[0][0]"),
        (LAUNCH, "num_requests", 0, "num_requests"),
        (LAUNCH, "steal_share", -0.5, "steal_share"),
        (LAUNCH, "machine.available_bytes", 10**30, "machine.available_bytes"),
        (LAUNCH, "time", "9999-12-31T23:59:59", "time"),
        (LAUNCH, "time", "0001-01-01T00:00:00", "time"),
        (LAUNCH, "confined", {"a": 1}, "confined[...]"),
        (FAILURE, "stage", ..., None),
        (FAILURE, "stage", "", "stage"),
        (FAILURE, "reason", True, "reason"),
        (Reset(), "launches", "all", "launches"),
    ],
)
def test_a_line_that_does_not_fit_is_set_aside(line: Line, place: str, value: object, field: str | None) -> None:
    found = read(text_of(HEADER), text_of(QUALITY), changed(line, place, value), text_of(LAUNCH))
    assert found.lines == (HEADER, QUALITY, LAUNCH)
    (damage,) = found.damages
    assert (damage.number, damage.field) == (3, field)
    assert damage.reason


@pytest.mark.parametrize(
    ("place", "value", "field"),
    [
        ("cell", "../../etc/passwd", "cell"),
        ("cell", "toy/null/native/raw/null/cpu/b0t1", "cell"),
        ("cell", made.HALVE.replace("b2", f"b{10**10}"), "cell"),
        ("cell", "x" * 5000, "cell"),
        ("cell", ..., None),
        ("key", "another", "key"),
        ("schema", SCHEMA + 1, "schema"),
        ("schema", 0, "schema"),
        ("schema", "two", "schema"),
        ("machine", [], "machine"),
        ("machine", {"gpus": 3}, "machine.gpus"),
        ("machine", {"num_cores": 10**400}, "machine.num_cores"),
        ("versions", {"numpy": 3}, "versions[...]"),
        ("subject", [3], "subject[0]"),
        ("artifact.size_bytes", -1, "artifact.size_bytes"),
        ("artifact.num_params", 10**30, "artifact.num_params"),
        ("artifact.operators", {"Conv": -1}, "artifact.Conv"),
        ("artifact.info", {"note": 3}, "artifact.info.note"),
        ("artifact.info", {"versions": []}, "artifact.info.versions"),
        ("artifact.info", {"seconds": 10**400}, "artifact.info.seconds"),
        ("time", "now", "time"),
    ],
)
def test_without_a_header_that_fits_no_line_counts(place: str, value: object, field: str | None) -> None:
    found = read(changed(HEADER, place, value), text_of(QUALITY))
    assert found.lines == ()
    (damage,) = found.damages
    assert (damage.number, damage.field) == (1, field)
    again = read(changed(HEADER, place, value), text_of(QUALITY), text_of(HEADER))
    assert again.lines == (HEADER, QUALITY), "a header further down, as `bench run` writes it, brings the lines back"
    assert [damage.number for damage in again.damages] == [1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{broken", "malformed"),
        (b"", "truncated"),
        (b"[1, 2]", "Expected `object`"),
        (b"\x00\xff\xfe", "malformed"),
        (b'{"kind":"failure","stage":"open","reason":"\xff"}', "it is not UTF-8: invalid start byte"),
        (b'{"kind":"failure","stage":"open","reason":"a","x":' + b"[" * 100_000, "it is nested too deeply"),
        (b'{"kind":"failure","stage":"open","reason":"a"}}', "trailing characters"),
        (b'{"kind":"failure","stage":"open","reason":1e999}', ""),
        (b'{"no":"kind"}', "missing required field `kind`"),
        (b'{"kind":3}', "Expected `str`"),
    ],
)
def test_text_that_is_no_line(text: bytes, reason: str) -> None:
    found = read(text_of(HEADER), text, text_of(LAUNCH))
    assert found.lines == (HEADER, LAUNCH)
    assert [damage.number for damage in found.damages] == [2]
    assert reason in found.damages[0].reason


def test_a_line_that_is_too_long_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LONGEST_LINE", 2000)
    found = read(text_of(HEADER), text_of(replace(FAILURE, detail="x" * 9000)), text_of(FAILURE))
    assert found.lines == (HEADER, FAILURE)
    assert [str(damage) for damage in found.damages] == ["line 2: it is longer than 2000 bytes"]


def test_a_last_line_without_its_newline_counts_if_it_is_whole() -> None:
    assert read(text_of(HEADER), text_of(LAUNCH), end=b"").lines == (HEADER, LAUNCH)
    cut = read(text_of(HEADER), text_of(LAUNCH)[:-1], end=b"")
    assert cut.lines == (HEADER,)
    assert [(damage.number, damage.reason) for damage in cut.damages] == [(2, "Input data was truncated")]


def test_no_spoilt_value_anywhere_raises() -> None:
    """Every field of every line, with values of all kinds: each is read, or set aside and told in one line."""

    def places(value: object, prefix: str = "") -> list[str]:
        if not isinstance(value, dict):
            return []
        return [place for name, inner in value.items() for place in (prefix + name, *places(inner, f"{prefix}{name}."))]

    num_damaged = 0
    for line in LINES:
        for place in places(msgspec.to_builtins(line)):
            for value in (..., *SPOILT):
                found = read(text_of(HEADER), changed(line, place, value))
                assert found.lines[:1] == (HEADER,)
                assert len(found.lines) + len(found.damages) <= 2
                assert all(str(damage).isprintable() for damage in found.damages)
                num_damaged += len(found.damages)
    assert num_damaged > 500


def test_newer_kinds_and_fields_are_passed_over_and_kept() -> None:
    cost = {"macs": 1, "weight_bytes": 2, "joules": 3}
    newer = json.dumps({**msgspec.to_builtins(QUALITY), "from_the_future": 1, "unknown": 2, "cost": cost})
    found = read(text_of(HEADER), '{"kind":"from the future","launch":1}', newer)
    assert found.damages == ()
    _, quality = found.lines
    assert isinstance(quality, WiderQuality)
    assert {*quality.unknown} == {(("from_the_future",), 1), (("unknown",), 2), (("cost", "joules"), 3)}
    assert replace(quality, reason="changed").unknown == quality.unknown
    known = {name: getattr(quality, name) for name in Quality.__struct_fields__}
    assert Quality(**known) == replace(QUALITY, cost=Cost(macs=1, weight_bytes=2))


def test_an_unknown_number_that_json_cannot_tell_sets_the_line_aside() -> None:
    newer = text_of(QUALITY).strip().removesuffix("}") + ',"from_the_future":1e999}'
    found = read(text_of(HEADER), newer, text_of(LAUNCH))
    assert found.lines == (HEADER, LAUNCH)
    assert [damage.reason for damage in found.damages] == ["Number out of range"]


def test_lines_of_schema_1_are_read() -> None:
    with OLD.open("rb") as file:
        found = reading.read(file, key="0205287e4d6677436f942e3d")
    assert found.damages == ()
    header, quality, *launches = found.lines
    assert isinstance(header, Header)
    assert header.schema == SCHEMA
    assert header.cell == "super_resolution/tf/native/raw/tensorflow/cpu/b1t2"
    assert isinstance(quality, Quality)
    assert (quality.precision, quality.metrics and quality.metrics["psnr_db"]) == ("float32", 29.445732146654855)
    assert [line.num_requests for line in launches if isinstance(line, type(LAUNCH))] == [1, 1]
    assert [line.launch for line in launches if isinstance(line, type(LAUNCH))] == [
        "ce6fcc8e95f242d9",
        "3078e3b88faa4124",
    ]
    assert "precision" in OLD.read_text().splitlines()[2], "a field that the migration takes out"


def test_published_lines_all_fit() -> None:
    files = sorted(PUBLISHED.glob("*/*.jsonl"))
    assert files
    for path in files:
        with path.open("rb") as file:
            found = reading.read(file, key=path.stem)
        assert (path, found.damages) == (path, ())
        assert len(found.lines) == len(path.read_text().splitlines())


def test_the_note_is_one_line_and_has_an_end() -> None:
    damages = [Damage(path=Path("a\nb.jsonl"), number=n, reason="x" * 900) for n in range(1, 40)]
    note = reading.note_of(damages)
    assert note is not None
    assert note.startswith("39 parts of the stored results cannot be read")
    assert r"a\nb.jsonl, line 5: xxx" in note
    assert note.endswith("...; and 34 more")
    assert note.isprintable()
    assert len(note) < 5 * 400
    assert reading.note_of([]) is None
