"""The strip of a card: where its marks and names stand, and that none covers another."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest

from bench.features.page import strips
from bench.features.page.strips import DOT, WIDTH, Mark, Strip, strip
from bench.records.rows import Row
from bench.report.figures.whiskers import whisker
from support.answers import BASE, baseline, cell, stored

FIRST = BASE.replace("raw", "first")


def rows(*latencies_ms: float) -> list[Row]:
    """The baseline at 10 ms, and cells of other latencies."""
    (base,) = stored(baseline()).rows
    base = dataclasses.replace(base, latency_p50_ns=10e6)
    names = ("first", *(f"v{number}" for number in range(len(latencies_ms))))
    cells = [
        dataclasses.replace(base, cell=BASE.replace("raw", name), latency_p50_ns=1e6 * ms)
        for name, ms in zip(names, latencies_ms, strict=False)
    ]
    return [base, *cells]


def drawn(*latencies_ms: float, names: dict[str, str] | None = None) -> Strip:
    found = strip(rows(*latencies_ms), pick=FIRST, lossy=(), names=names or {})
    assert found is not None
    return found


def marks_of(found: Strip) -> list[Mark]:
    return [*found.marks, *([found.pick] if found.pick else [])]


def test_the_faster_stands_further_left_on_an_axis_of_factors() -> None:
    found = drawn(1, 3.1622776601683795)
    assert found.pick is not None
    middle, last = sorted(mark.x for mark in found.marks)

    assert found.pick.x < middle < last
    assert middle - found.pick.x == pytest.approx(last - middle, abs=0.02)
    assert [text for _, text, _ in found.ticks] == ["1 ms", "2 ms", "5 ms", "10 ms"]
    assert found.title == "Latency of 3 deployments, 1 to 10 ms; the marked one: 1 ms"


def test_texts_of_ticks_have_room_on_a_phone() -> None:
    """All six of a range of 40 times would cover one another."""
    found = drawn(5.3, 200)
    assert [text for _, text, _ in found.ticks] == ["5 ms", "20 ms", "100 ms"]


def test_no_mark_touches_another_while_there_is_room() -> None:
    found = drawn(1, 1.01, 1.02, 1.1, *(5.0 + 0.2 * number for number in range(20)))
    places = [(WIDTH * mark.x / 100, mark.y, mark.radius) for mark in marks_of(found)]

    for (x, y, radius), (other_x, other_y, other) in itertools.combinations(places, 2):
        assert math.hypot(x - other_x, y - other_y) >= radius + other
    assert all(DOT <= y <= found.height - strips.AXIS_LINE for _, y, _ in places)


def test_more_marks_than_there_is_room_for_stay_in_their_lanes() -> None:
    found = drawn(*(1 + 1e-6 * number for number in range(40)))
    assert found.pick is not None
    assert {round(mark.y - found.pick.y, 6) for mark in found.marks} == {*strips.LANES}


def test_names_that_would_cover_one_another_stand_on_lines_of_their_own() -> None:
    names = {BASE: "TensorFlow", FIRST: "LiteRT, int8", BASE.replace("raw", "v1"): "PyTorch"}
    apart = drawn(1, 3, names={BASE: "TensorFlow", FIRST: "LiteRT, int8"})
    near = drawn(9, 9.5, 1, names={**names, BASE.replace("raw", "v0"): "a"})

    assert [label.y for label in apart.labels] == [10.0, 10.0]
    assert [label.text for label in apart.labels] == ["LiteRT, int8", "TensorFlow"]
    assert [label.anchor for label in apart.labels] == ["start", "end"]
    assert len({label.y for label in near.labels if label.anchor == "end"}) == 3
    assert near.height > apart.height


def test_a_long_name_is_cut_with_an_ellipsis() -> None:
    (label,) = drawn(1, names={FIRST: "x" * 99}).labels
    assert len(label.text) == strips.LONGEST
    assert label.text.endswith("\N{HORIZONTAL ELLIPSIS}")


def test_the_pick_has_the_whisker_of_its_ratio() -> None:
    found = stored(baseline(), cell("first", 0.5, noise=0.05), cell("other", 0.8, noise=0.05))
    one = strip(found.rows, pick=FIRST, lossy=[BASE], names={})
    assert one is not None
    assert one.pick is not None
    assert one.whisker is not None
    (row,) = (row for row in found.rows if row.cell == FIRST)
    low, high = whisker(row) or (0.0, 0.0)
    assert row.latency_p50_ns

    scale = (one.pick.x - one.whisker[0]) / math.log(row.latency_p50_ns / low)
    assert one.whisker[1] - one.pick.x == pytest.approx(scale * math.log(high / row.latency_p50_ns), abs=0.05)
    assert [mark.row.cell for mark in one.marks if mark.is_lossy] == [BASE]


def test_without_a_pick_nothing_is_marked_and_without_a_latency_nothing_is_drawn() -> None:
    found = strip(rows(1, 2), pick=None, lossy=(), names={})
    assert found is not None
    assert (found.pick, found.whisker, found.labels, len(found.marks)) == (None, None, (), 3)
    assert strip([dataclasses.replace(rows()[0], latency_p50_ns=None)], pick=BASE, lossy=(), names={}) is None
    assert strip([dataclasses.replace(rows()[0], latency_p50_ns=0.0)], pick=BASE, lossy=(), names={}) is None


def test_a_single_deployment_stands_in_the_middle() -> None:
    found = drawn()
    assert found.pick is None
    assert [mark.x for mark in found.marks] == [50.0]
    assert len(found.ticks) >= 1
