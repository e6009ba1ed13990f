"""Services that took turns, from records made by hand: which belong together, and what the ratios are."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from bench.features.load import deployment
from bench.features.load import render as report
from bench.features.load import turns as load
from bench.features.load.lines import P50, P90, P99, PERCENTILES, SHAPE, LoadLaunch, LoadRun, launches_of
from bench.features.load.paired import FAILED
from bench.features.load.turns import Way
from bench.measure.comparison import CELL, CONTROL, REFERENCE
from bench.records import assemble, validation
from bench.records.store import Record
from support import records as made

FAST, SLOW = "toy/null/native/fast/null/cpu/b1t1", "toy/null/native/slow/null/cpu/b1t1"
WOBBLE = (1.0, 1.01, 0.99, 1.0)


def line(block: str, role: str, factor: float, **more: Any) -> LoadLaunch:
    p50 = tuple(int(factor * 1e6 * share) for share in WOBBLE)
    fields: dict[str, Any] = {
        "launch": f"{block}-{role}-{factor}",
        "block": block,
        "role": role,
        "reference": FAST,
        "instances": 1,
        "rate": 100.0,
        "slices_ns": {P50: p50, P90: tuple(2 * ns for ns in p50), P99: tuple(3 * ns for ns in p50)},
        "requests": (200,) * 4,
        "shape_ns": tuple(int(factor * 1e6 * (1 + place)) for place in range(len(SHAPE))),
        "overhead_ns": 50_000,
        "bound": (P99, 20_000_000),
        "highest_ns": tuple(int(factor * 2e6 * share) for share in WOBBLE[:2]),
        "curve": ((300.0, 10_000_000), (600.0, None)),
        "time": made.time_of(block),
    }
    return LoadLaunch(**{**fields, **more})


def records(*, plan: bool = False, blocks: str = "ab", **more: Any) -> dict[str, Record]:
    empty: dict[str, Any] = {"slices_ns": {}, "requests": (), "shape_ns": (), "rate": None} if plan else {}
    roles = {FAST: ((REFERENCE, 1.0), (CONTROL, 1.0)), SLOW: ((CELL, 2.0),)}
    return {
        path: made.record(
            path, *(line(block, role, factor, **{**empty, **more}) for block in blocks for role, factor in of_path)
        )
        for path, of_path in roles.items()
    }


def way(path: str, instances: int = 1) -> Way:
    (found,) = {one for one in load.turns(records(instances=instances))[0].launches if one.cell.path == path}
    return found


def test_ratios_are_those_of_the_launches() -> None:
    (found,) = load.turns(records())
    assert (found.baseline, found.rate, found.bound) == (way(FAST), 100.0, (P99, 20_000_000))
    for statistic in (P50, P90, P99):
        ratio, latency = found.over_baseline(way(SLOW), statistic).ratio, found.latency_ns(way(SLOW), statistic)
        assert ratio is not None
        assert latency is not None
        assert ratio.low < 2.0 < ratio.high
        assert ratio.value == pytest.approx(2.0, rel=0.01)
        of_all = 2e6 * (1 + SHAPE.index(PERCENTILES[statistic]))  # a percentile of a slice is another figure
        assert latency.value == pytest.approx(of_all)
        assert latency.low < of_all < latency.high
        assert found.over_baseline(way(SLOW), statistic).verdict(0.02) == "slower"
    rate, over = found.highest_rate(way(SLOW)), found.highest_over_baseline(way(SLOW))
    assert rate is not None
    assert over is not None
    assert rate.value == pytest.approx(250, rel=0.02)  # one request in 4 ms
    assert rate.low < rate.value < rate.high
    assert over.value == pytest.approx(0.5, rel=0.01)
    assert found.not_lower_than(way(FAST)) == []
    assert found.not_lower_than(way(SLOW)) == [way(FAST)]


def test_other_rates_ways_and_bounds_are_not_compared() -> None:
    every = [
        records(),
        records(blocks="c", rate=50.0),
        records(blocks="d", instances=2),
        records(blocks="e", bound=None, highest_ns=()),
    ]
    joined = {
        path: made.record(path, *itertools.chain(*(launches_of(each[path]) for each in every))) for path in (FAST, SLOW)
    }
    found = load.turns(joined)
    assert len(found) == 4
    assert sorted(one.rate or 0 for one in found) == [50, 100, 100, 100]
    assert {one.baseline.setup.instances for one in found} == {1, 2}
    assert [one.time for one in found] == sorted(one.time for one in found)
    cells = [way(SLOW).cell]
    assert load.newest(found, cells, plan=False) == found[-1:]
    assert load.newest(found, cells, plan=True) == []
    assert load.newest(found, [], plan=False) == []


def test_a_service_without_latencies_could_not_keep_up() -> None:
    found = records()
    found[SLOW] = made.record(SLOW, *(line(block, CELL, 2.0, slices_ns={}, requests=(), shape_ns=()) for block in "ab"))
    (turns,) = load.turns(found)
    assert turns.latency_ns(way(SLOW), P50) is None
    assert turns.over_baseline(way(SLOW), P50).ratio is None
    assert turns.highest_rate(way(SLOW)) is not None
    assert "cannot keep up" in report.render([*found.values()], [turns], format="md", margin=0.02)


def test_the_launches_in_which_a_service_did_well_are_no_figure() -> None:
    """Nor is what it brought before it failed, unless it was launched again."""
    found, lacking = records(plan=False), {"slices_ns": {}, "requests": (), "shape_ns": (), "highest_ns": ()}
    lines = [line("a", CELL, 0.5), line("b", CELL, 0.5, **lacking)]
    (turns,) = load.turns(found | {SLOW: made.record(SLOW, *lines)})
    assert [turns.latency_ns(way(SLOW), P50), turns.highest_rate(way(SLOW)), turns.rate_seen(way(SLOW))] == [None] * 3
    assert turns.over_baseline(way(SLOW), P99).ratio is None
    assert turns.best() == way(FAST)
    text = report.render([*found.values()], [turns], format="md", margin=0.02)
    assert "| cannot keep up in 1 of 2 launches |" in text
    assert "| none in 1 of 2 launches |" in text

    def failed_at(block: str) -> load.Turns:
        run = LoadRun(run="x", scenario=FAILED, instances=1, is_valid=False, reason="tired", time=made.time_of(block))
        lines = [line(block, CELL, 0.5) for block in "ab"]
        (turns,) = load.turns(found | {SLOW: made.record(SLOW, run, *lines)})
        return turns

    early, late = sorted("ab", key=made.time_of)
    assert failed_at(early).best() == way(SLOW), "it was launched again"
    turns = failed_at(late)
    assert turns.failures == {way(SLOW): "tired"}
    assert turns.latency_ns(way(SLOW), P50) is None
    assert turns.best() == way(FAST)
    assert "| failed |" in report.render([*found.values()], [turns], format="md", margin=0.02)


@pytest.mark.parametrize(("requests", "tail"), [(200, P99), (166, P99), (165, P90), (20, P90)])
def test_a_percentile_is_told_by_as_many_requests_as_it_needs(requests: int, tail: str) -> None:
    """The 99th by 662 of a launch, which has four slices here."""
    found = records(requests=(requests,) * 4)
    (turns,) = load.turns(found)
    assert turns.tail == tail
    assert (turns.latency_ns(way(SLOW), P99) is None) == (tail == P90)
    assert (turns.over_baseline(way(SLOW), P99).ratio is None) == (tail == P90)
    assert turns.latency_ns(way(SLOW), P90) is not None
    assert f"| {tail} (ms) |" in report.render([*found.values()], [turns], format="md", margin=0.02)


def test_where_the_baseline_cannot_keep_up_the_others_are_not_said_to_be_so() -> None:
    found = records()
    slow = [
        line(block, role, 1.0, slices_ns={}, requests=(), shape_ns=())
        for block in "ab"
        for role in (REFERENCE, CONTROL)
    ]
    found[FAST] = made.record(FAST, *slow)
    (turns,) = load.turns(found)
    assert not turns.is_plan
    text = report.render([*found.values()], [turns], format="md", margin=0.02)
    rows = {cells[1].strip(): cells[3].strip() for row in text.splitlines() if len(cells := row.split("|")) > 8}
    assert (rows[FAST], rows[SLOW]) == ("cannot keep up", "\N{EN DASH}")


@pytest.mark.parametrize("plan", [False, True])
def test_where_the_baseline_holds_no_rate_the_others_are_not_said_to_hold_none(plan: bool) -> None:
    found = records(plan=plan)
    empty: dict[str, Any] = {"slices_ns": {}, "requests": (), "shape_ns": (), "rate": None} if plan else {}
    slow = [line(block, role, 1.0, highest_ns=(), **empty) for block in "ab" for role in (REFERENCE, CONTROL)]
    found[FAST] = made.record(FAST, *slow)
    (turns,) = load.turns(found)
    assert turns.highest_rate(way(SLOW)) is None
    assert turns.rate_seen(way(SLOW)) == pytest.approx(1e9 / 4.02e6)
    assert turns.rate_seen(way(FAST)) is None
    text = report.render([*found.values()], [turns], format="md", margin=0.02)
    assert "| about 249 |" in text
    assert "| not found |" in text, "the bound was kept at 300 requests/s"
    found[FAST] = made.record(FAST, *(msgspec.structs.replace(one, curve=((300.0, 30_000_000),)) for one in slow))
    text = report.render([*found.values()], load.turns(found), format="md", margin=0.02)
    assert "| too slow at 300 |" in text, "the lowest rate that was tried"
    assert "no way to serve keeps" not in text


def test_a_latency_that_falls_while_the_rate_rises_is_told_in_place_of_a_rate() -> None:
    found = records()
    falls: dict[str, Any] = {"highest_ns": (), "fall": ((49.4, 25_600_000), (96.5, 15_800_000))}
    found[SLOW] = made.record(SLOW, line("a", CELL, 2.0, **falls), line("b", CELL, 2.0))
    (turns,) = load.turns(found)
    said = "p99 falls: 25.6 ms at 49.4/s, 15.8 ms at 96.5/s"
    assert report.without(turns, way(SLOW)) == f"{said} in 1 of 2 launches"
    found[SLOW] = made.record(SLOW, *(line(block, CELL, 2.0, **falls) for block in "ab"))
    (turns,) = load.turns(found)
    text = report.render([*found.values()], [turns], format="md", margin=0.02)
    assert f"| {said} | \N{EN DASH} |" in text
    services = json.loads(report.render([*found.values()], [turns], format="json", margin=0.02))["turns"][0]["services"]
    assert {one["cell"]: one["fall"] for one in services} == {
        FAST: None,
        SLOW: [[49.4, 25_600_000], [96.5, 15_800_000]],
    }


def test_a_plan_names_the_way_with_the_highest_rate() -> None:
    found = records(plan=True, max_batch=4, instances=2)
    (turns,) = load.turns(found)
    assert turns.is_plan
    answer = report.answer(turns)
    assert answer.startswith("2 instances x 1 thread, batch <= 4, 498 requests/s [")
    assert answer.endswith(f"at p99 <= 20 ms: {FAST}")
    assert answer in report.render([*found.values()], [turns], format="table", margin=0.02)


def test_a_plan_is_told_by_pick_and_kept_with_the_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    planned = records(plan=True, max_batch=4, instances=2)
    shipped = SimpleNamespace(cell=SLOW.replace("t1", "t2"))
    rows = assemble.rows({path: made.baseline(path, a=1) for path in (SLOW, FAST, FAST.replace("fast", "other"))})
    group = SimpleNamespace(task="toy")
    choice: Any = SimpleNamespace(group=group, qualified=SimpleNamespace(rows=rows), shipped=shipped)
    addition = deployment.addition(choice, planned)
    kept: Any = addition.service
    assert kept is not None
    assert [kept[name] for name in ("instances", "sessions", "threads", "max_batch")] == [2, 1, 1, 4]
    assert kept["highest_rate"]["value"] == pytest.approx(250, rel=0.02)  # type: ignore[index]
    assert kept["bound"] == {"statistic": P99, "most_ns": 20_000_000}
    text = addition.text
    *_, first, second, _ = text.splitlines()
    assert first.split("  ")[0] == "null/native/fast/null/cpu"
    assert [part.strip() for part in first.split("  ") if part][1] == "2 instances x 1 thread, batch <= 4"
    assert "498 requests/s [" in first
    assert second.split("  ")[0] == "null/native/slow/null/cpu"
    assert "highest rate at p99 <= 20 ms" in text


def test_without_a_plan_pick_tells_of_none() -> None:
    assert load.plan_of(records(), "toy") is None  # turns at a rate
    assert load.plan_of(records(plan=True), "other") is None
    assert load.plan_of(records(plan=True, highest_ns=()), "toy") is None
    before = records(plan=True, time="2030-01-01T00:00:00+00:00")
    last = records(plan=True, blocks="cd", bound=(P99, 1_000_000), highest_ns=(), time="2030-01-02T00:00:00+00:00")
    both = {path: made.record(path, *launches_of(before[path]), *launches_of(last[path])) for path in (FAST, SLOW)}
    assert load.plan_of(both, "toy") is None, "the last plan, and not one before it with another bound"


def test_a_run_that_is_invalid_has_a_reason_and_no_figure() -> None:
    figures = {"99.00 percentile latency (ns)": 5e6}
    run = LoadRun(
        run="a", scenario="server", instances=1, settings={"server_target_qps": 70.0}, is_valid=True, figures=figures
    )
    invalid = LoadRun(
        run="b", scenario="multi_stream", instances=1, is_valid=False, reason="too short", figures=figures
    )
    text = report.render([made.record(FAST, run, invalid)], [], format="md", margin=0.02)
    assert "| server | 70/s | p99 5 ms |" in text.replace("70.0/s", "70/s")
    assert "invalid: too short" in text
    assert text.count("p99") == 1


UNMET = "performance constraints not met, early stopping not met"


@pytest.mark.parametrize(
    ("seen_ms", "reason", "more", "said"),
    [
        (12.57, UNMET, {}, "p99 12.6 ms is over the bound of 11 ms; try a lower --rate or a longer --latency"),
        (
            9.8,
            "early stopping not met",
            {},
            "p99 9.8 ms is too near the bound of 11 ms for so few requests; try --mlperf",
        ),
        (12.57, f"{UNMET}, 3 ERRORS encountered", {}, "longer --latency, 3 ERRORS encountered"),
        (9.8, "min duration not met", {}, "invalid: min duration not met"),
        (12.57, UNMET, {"use_token_latencies": 1.0}, f"invalid: {UNMET}"),
    ],
)
def test_an_invalid_run_says_its_figure_and_what_to_ask_for(
    seen_ms: float, reason: str, more: dict[str, float], said: str
) -> None:
    settings = {"server_target_latency_ns": 11e6, "server_target_latency_percentile": 0.99, **more}
    figures = {"90.00 percentile latency (ns)": 1e6, "99.00 percentile latency (ns)": seen_ms * 1e6}
    how = {"run": "a", "scenario": "server", "instances": 1, "is_valid": False}
    run = LoadRun(**how, reason=reason, settings=settings, figures=figures)
    assert f"{said} |" in report.render([made.record(FAST, run)], [], format="md", margin=0.02)


def test_a_slow_service_is_shown_by_the_percentile_that_its_run_bounded() -> None:
    figures = {"90.00 percentile latency (ns)": 70e6, "99.00 percentile latency (ns)": 9e7}
    settings = {"server_target_qps": 5.0, "server_target_latency_percentile": 0.9}
    run = LoadRun(run="a", scenario="server", instances=1, settings=settings, is_valid=True, figures=figures)
    text = report.render([made.record(FAST, run)], [], format="md", margin=0.02)
    assert "p90 70 ms" in text
    assert "p99" not in text


def test_energy_is_shown_with_what_it_was_counted_of() -> None:
    counted = records(joules=0.0125, joules_of=("package-0", "gpu-0"))
    text = report.render([*counted.values()], load.turns(counted), format="md", margin=0.02)
    assert "energy of package-0 + gpu-0 (mJ/request)" in text
    assert text.count("| 12.5 |") == 2
    assert "energy" not in report.render([*records().values()], load.turns(records()), format="md", margin=0.02)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"slices_ns": {P50: (1, 2, 3, 4)}}, "slices_ns"),
        ({"requests": (200,)}, "slices_ns"),
        ({"shape_ns": (1, 2)}, "shape_ns"),
        ({"bound": ("p75", 1)}, "bound"),
        ({"bound": None}, "highest_ns"),
    ],
)
def test_lines_that_contradict_themselves_are_set_aside(more: dict[str, Any], field: str) -> None:
    assert validation.of(line("a", CELL, 1.0)) is None
    fault = validation.of(line("a", CELL, 1.0, **more))
    assert fault is not None
    assert fault.field == field
