"""Figures of services under load, of records made by hand: their files, texts, points and marks."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.api.cell import Cell
from bench.features.load import page as contributed
from bench.features.load import plots
from bench.features.load import turns as decisions
from bench.features.load.lines import P50, P90, P99, SHAPE, LoadLaunch, LoadRun, launches_of
from bench.features.load.turns import Turns, Way
from bench.measure.comparison import CELL, CONTROL, REFERENCE
from bench.records import assemble
from bench.records.store import Record
from bench.report.figures import canvas
from support.features import needs
from support.records import record, time_of

RAW = "toy/null/native/raw/null/cpu/b1t1"
HALVE = "toy/null/native/halve+prune/null/cpu/b1t1"
SLOW = "toy/null/native/raw/slow@1.2/cpu/b1t1"
BOUND = (P99, 20_000_000)
MS = 1_000_000
CURVE = ((100.0, 12 * MS), (125.0, 26 * MS), (156.0, None))


def launch(block: str, role: str, base_ms: float = 10.0, **more: Any) -> LoadLaunch:
    """A launch of three slices of 400 requests, whose latencies grow from `base_ms` to five times that."""
    fields: dict[str, Any] = {
        "launch": f"{block}-{role}-{base_ms}-{more.get('max_batch', 1)}",
        "block": block,
        "role": role,
        "reference": RAW,
        "instances": 1,
        "rate": 97.0,
        "bound": BOUND,
        "slices_ns": {name: (int(factor * base_ms * MS),) * 3 for name, factor in ((P50, 1), (P90, 2), (P99, 3))},
        "requests": (400,) * 3,
        "shape_ns": tuple(int(base_ms * MS * (1 + 4 * index / (len(SHAPE) - 1))) for index in range(len(SHAPE))),
        "highest_ns": (int(1e9 / 120),) * 3,
        "curve": CURVE,
        "time": time_of(block),
    }
    return LoadLaunch(**{**fields, **more})


def overloaded(block: str) -> LoadLaunch:
    return launch(
        block, CELL, slices_ns={}, requests=(), shape_ns=(), highest_ns=(), curve=((97.0, None), (2.0, 90 * MS))
    )


def run(**more: Any) -> LoadRun:
    fields: dict[str, Any] = {
        "run": "r",
        "scenario": "server",
        "instances": 1,
        "is_valid": True,
        "settings": {"server_target_qps": 97.0},
        "waiting": (1, 3, 2, 0, 1),
        "batches": (1, 1, 1, 0, 1),
    }
    return LoadRun(**{**fields, **more})


def usual() -> dict[str, Record]:
    """A baseline in two blocks, a service of half its latency, and one that cannot keep up."""
    return {
        RAW: record(RAW, *(launch(block, role) for block in "ab" for role in (REFERENCE, CONTROL))),
        HALVE: record(HALVE, *(launch(block, CELL, 5.0, highest_ns=(int(1e9 / 240),) * 3) for block in "ab")),
        SLOW: record(SLOW, *map(overloaded, "ab")),
    }


def of(path: str, found: Turns) -> Way:
    return next(way for way in found.launches if way.cell.path == path)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """The figures that are drawn, by file name; no PNG is, of which a test reads nothing."""
    found: dict[str, Figure] = {}
    write = canvas.save

    def save(figure: Figure, path: Path) -> Path:
        found[path.stem] = figure
        return write(figure, path) if path.suffix == ".svg" else path

    monkeypatch.setattr(canvas, "save", save)
    return found


def texts(path: Path) -> list[str]:
    """Texts of an SVG, in order."""
    found = re.findall(r"<text[^>]*>(.*?)</text>", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [re.sub(r"<[^>]*>", "", text).strip().replace("&lt;", "<") for text in found]


def points(line: Line2D) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def test_writes_both_figures_of_turns_and_the_queue_in_both_formats(tmp_path: Path) -> None:
    records = {**usual(), RAW: record(RAW, *launches_of(usual()[RAW]), run())}
    paths = plots.draw(records.values(), decisions.turns(records), tmp_path / "new")
    ends = ("knee", "rates", "percentiles")
    stems = (*(f"toy-b1t1-97rps-p99-20ms-{end}" for end in ends), f"{RAW.replace('/', '-')}-queue")
    assert [path.name for path in paths] == [f"{stem}.{suffix}" for stem in stems for suffix in ("png", "svg")]
    assert sorted(paths) == sorted((tmp_path / "new").iterdir())
    for path in paths:
        assert path.read_bytes().startswith(b"\x89PNG" if path.suffix == ".png" else b"<?xml")


@needs("page")
def test_the_page_has_the_figures_of_a_task_and_of_no_other(tmp_path: Path) -> None:
    from bench.features.page.document import Shown, page

    found = usual()
    turns = decisions.turns(found)
    rows = assemble.rows(found)
    cells = {Cell.from_path(row.cell) for row in rows}
    stored: Any = SimpleNamespace(records=found)
    sections = {task: [section] for task, section in contributed.sections(stored, cells)}
    text = page([Shown(records=found, rows=rows, sections=sections)], margin=0.02)
    assert text.count("<h3>Under load</h3>") == 1
    assert text.count('alt="latency and waiting of services under load"') == len(plots.drawings([], turns)) == 2
    assert "<h3>Under load</h3>" not in page([Shown(records=found, rows=rows)], margin=0.02)


@pytest.mark.usefixtures("figures")
def test_the_same_records_make_the_same_svg(tmp_path: Path) -> None:
    records = usual()
    for folder in ("a", "b"):
        plots.draw([], decisions.turns(records), tmp_path / folder)
    paths = [*(tmp_path / "a").glob("*.svg")]
    assert len(paths) == 3
    for path in paths:
        assert path.read_text() == (tmp_path / "b" / path.name).read_text()


def test_the_knee_shows_every_rate_that_was_tried(figures: dict[str, Figure], tmp_path: Path) -> None:
    (found,) = decisions.turns(usual())
    *_, name = (path.stem for path in plots.draw([], [found], tmp_path) if "knee" in path.stem)
    above, below = figures[name].axes
    assert above.get_yscale() == "log"
    dots = {line.get_color(): points(line) for line in above.lines if line.get_linestyle() == "None"}
    looks = canvas.looks_of(["halve+prune/null", "raw/null", "raw/slow@1.2"])
    assert dots == {
        looks["halve+prune/null"].colour: [(100.0, 12.0)] * 2 + [(125.0, 26.0)] * 2,
        looks["raw/null"].colour: [(100.0, 12.0)] * 4 + [(125.0, 26.0)] * 4,  # of the reference and of the control
        looks["raw/slow@1.2"].colour: [(2.0, 90.0)] * 2,
    }
    crosses = [points(line) for line in below.lines if line.get_marker() == "x"]
    assert crosses == [[(156.0, 0.0)] * 2, [(156.0, 1.0)] * 4, [(97.0, 2.0)] * 2], "a row for each service, best first"


def test_the_knee_marks_the_highest_rates_at_the_bound(figures: dict[str, Figure], tmp_path: Path) -> None:
    (found,) = decisions.turns(usual())
    plots.draw([], [found], tmp_path)
    above, below = figures["toy-b1t1-97rps-p99-20ms-knee"].axes
    assert [points(line) for line in above.lines if line.get_linestyle() == "--"] == [[(0.0, 20.0), (1.0, 20.0)]]
    marks = [points(line)[0] for line in above.lines if line.get_linestyle() == ":"]
    assert marks == [(pytest.approx(240), 20.0), (pytest.approx(120), 20.0)]
    ends = [bar.get_segments()[0][:, 0] for bar in below.collections]
    for path, bar in zip((HALVE, RAW), ends, strict=True):
        held = found.highest_rate(of(path, found))
        assert held is not None
        assert bar.tolist() == pytest.approx([held.low, held.high])
    shown = texts(tmp_path / "toy-b1t1-97rps-p99-20ms-knee.svg")
    assert "p99 <= 20 ms" in shown
    assert "rate (requests/s)" in shown
    assert "\N{LEFTWARDS ARROW} p99 of the latency (ms, log scale), lower is better" in shown
    assert "highest rate at p99 <= 20 ms (requests/s), higher is better \N{RIGHTWARDS ARROW}" in shown
    assert [text for text in shown if text.startswith("too slow") or "[" in text][-1] == "too slow at 2"
    assert any(text.startswith("240 [") for text in shown)


def test_the_highest_rates_alone_are_those_of_the_knee_beside_the_names(
    figures: dict[str, Figure], tmp_path: Path
) -> None:
    plots.draw([], decisions.turns(usual()), tmp_path)
    _, below = figures["toy-b1t1-97rps-p99-20ms-knee"].axes
    (axes,) = figures["toy-b1t1-97rps-p99-20ms-rates"].axes
    assert [points(line) for line in axes.lines] == [points(line) for line in below.lines]
    ends, expected = ([bar.get_segments()[0].tolist() for bar in each.collections] for each in (axes, below))
    assert ends == expected
    names = ["halve+prune/null", "raw/null (baseline)", "raw/slow@1.2"]
    assert [label.get_text() for label in axes.get_yticklabels()] == names


@pytest.mark.usefixtures("figures")
def test_services_are_named_by_what_differs(tmp_path: Path) -> None:
    plots.draw([], decisions.turns(usual()), tmp_path)
    shown = texts(tmp_path / "toy-b1t1-97rps-p99-20ms-knee.svg")
    expected = ["halve+prune/null", "raw/null (baseline)", "raw/slow@1.2"]
    assert [text for text in shown if text in expected] == expected
    assert any("toy/null/native/*/*/cpu/b1t1, 1 worker" in text for text in shown)


def test_names_tell_how_cells_are_served_and_a_service_alone_is_named_whole() -> None:
    lines = [launch("a", REFERENCE), launch("a", CELL, max_batch=4, max_delay_ns=5 * MS)]
    (found,) = decisions.turns({RAW: record(RAW, *lines)})
    named, shared = plots.names(found.launches)
    assert sorted(named.values()) == ["1 worker", "1 worker, batch <= 4 within 5 ms"]
    assert shared == RAW
    alone = plots.names([found.baseline])
    assert alone == ({found.baseline: RAW.removeprefix("toy/")}, f"{RAW}, 1 worker")


def test_the_line_of_the_knee_goes_through_medians_of_close_rates() -> None:
    tried = [(100.0, 3.0), (101.0, 9.0), (104.0, 4.0), (130.0, 8.0), (131.0, float("inf")), (200.0, float("inf"))]
    assert plots._medians(tried) == [(101.0, 4.0)]
    assert plots._medians([*tried[:3], (130.0, 8.0)]) == [(101.0, 4.0), (130.0, 8.0)]


def test_percentiles_stand_on_a_scale_of_nines_and_leave_out_the_overloaded(
    figures: dict[str, Figure], tmp_path: Path
) -> None:
    plots.draw([], decisions.turns(usual()), tmp_path)
    (axes,) = figures["toy-b1t1-97rps-p99-20ms-percentiles"].axes
    ticks = {label.get_text(): tick for label, tick in zip(axes.get_xticklabels(), axes.get_xticks(), strict=True)}
    assert list(ticks) == ["0 %", "50 %", "75 %", "90 %", "95 %", "99 %", "99.5 %", "99.9 %", "max"]
    assert [ticks[name] for name in ("0 %", "90 %", "99 %", "99.9 %", "max")] == pytest.approx([0, 1, 2, 3, 3.5])
    solid = [points(line) for line in axes.lines if line.get_linestyle() == "-"]
    dotted = [points(line) for line in axes.lines if line.get_linestyle() == ":"]
    assert [line[0] for line in solid] == [(0.0, 5.0), (0.0, 10.0)], "the fastest first"
    assert [line[-1][0] for line in solid] == pytest.approx([2, 2]), "1200 requests tell p99 and no more"
    assert [line[-1] for line in dotted] == [(3.5, 25.0), (3.5, 50.0)]
    shown = texts(tmp_path / "toy-b1t1-97rps-p99-20ms-percentiles.svg")
    assert "toy: latency at 97 requests/s" in shown
    assert "raw/slow@1.2" not in shown, "it has no line in the legend"
    assert "Could not keep up: raw/slow@1.2." in " ".join(shown)


def test_the_percentiles_of_launches_are_their_medians(figures: dict[str, Figure], tmp_path: Path) -> None:
    lines = [launch("a", REFERENCE, 10.0), launch("a", CONTROL, 11.0), launch("b", REFERENCE, 90.0)]
    plots.draw([], decisions.turns({RAW: record(RAW, *lines)}), tmp_path)
    (axes,) = figures["toy-b1t1-97rps-p99-20ms-percentiles"].axes
    assert points(axes.lines[-1])[0] == (0.0, 11.0)


def test_the_queue_shows_waiting_and_batches_over_the_run(figures: dict[str, Figure], tmp_path: Path) -> None:
    batched = run(run="s", max_batch=4, max_delay_ns=5 * MS, batches=(0, 4, 2, 0, 0), is_valid=False, reason="too late")
    earlier = run(run="q", waiting=(9, 9, 9, 9, 9))
    stored = record(RAW, earlier, run(), batched)
    paths = plots.draw([stored], [], tmp_path)
    name = RAW.replace("/", "-")
    assert [path.stem for path in paths[::2]] == [f"{name}-queue", f"{name}-1x4+5ms-queue"]
    (axes,) = figures[f"{name}-queue"].axes
    assert points(axes.lines[0]) == [(0.0, 1.0), (25.0, 3.0), (50.0, 2.0), (75.0, 0.0), (100.0, 1.0)]
    assert axes.get_xlabel() == "share of the run (%)"
    assert "null/native/raw/null/cpu/b1t1, 1 worker" in texts(tmp_path / f"{name}-queue.svg")
    above, below = figures[f"{name}-1x4+5ms-queue"].axes
    assert above.get_title("left") == "null/native/raw/null/cpu/b1t1, 1 worker, batch <= 4 within 5 ms"
    assert [y for _, y in points(below.lines[0])] == [0.0, 4.0, 2.0, 0.0, 0.0]
    shown = " ".join(texts(tmp_path / f"{name}-1x4+5ms-queue.svg"))
    assert "at 97 requests/s; invalid: too late." in shown


def test_nothing_is_written_where_there_is_nothing_to_draw(tmp_path: Path) -> None:
    nothing = {"bound": None, "curve": (), "highest_ns": (), "slices_ns": {}, "shape_ns": ()}
    idle = run(waiting=(), batches=())
    other = run(scenario="offline")
    records = {RAW: record(RAW, launch("a", REFERENCE, **nothing), idle, other)}
    assert plots.draw(records.values(), decisions.turns(records), tmp_path) == []
    never = {"curve": ((97.0, None),), "highest_ns": (), "slices_ns": {}, "shape_ns": ()}
    records = {RAW: record(RAW, launch("a", REFERENCE, **never))}
    assert plots.draw([], decisions.turns(records), tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("figures")
def test_a_plan_has_a_knee_and_rates_alone_and_no_baseline(tmp_path: Path) -> None:
    plan = {"slices_ns": {}, "shape_ns": (), "requests": (), "rate": None}
    lines = [launch("a", REFERENCE, **plan), launch("a", CONTROL, **plan), launch("a", CELL, max_batch=4, **plan)]
    paths = plots.draw([], decisions.turns({RAW: record(RAW, *lines)}), tmp_path)
    stems = ["toy-b1t1-p99-20ms-knee", "toy-b1t1-p99-20ms-rates"]
    assert [path.name for path in paths] == [f"{stem}.{suffix}" for stem in stems for suffix in ("png", "svg")]
    for path in paths[1::2]:
        assert {"1 worker", "1 worker, batch <= 4"} <= set(texts(path))


@pytest.mark.usefixtures("figures")
def test_long_names_of_cells_give_short_names_of_files_of_their_own(tmp_path: Path) -> None:
    variants = ["+".join([f"a_variant_with_a_long_name_{number}"] * 9) for number in range(2)]
    paths = [RAW.replace("raw", variant) for variant in variants]
    written = plots.draw([record(path, run()) for path in paths], [], tmp_path)
    assert len({path.stem for path in written}) == 2
    assert all(len(path.stem) == plots.LONGEST_NAME and path.stem.endswith("-queue") for path in written)
    shown = "".join(texts(written[1]))
    assert variants[0] in shown, "the figure names it whole"
