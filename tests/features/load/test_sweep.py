"""A sweep under load: MLPerf's load generator and the turns, with toy cells and short runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from bench.api.cell import Cell
from bench.features.load import capacity, loadgen, paired, plan, scenarios, sweep
from bench.features.load import render as report
from bench.features.load import turns as decisions
from bench.features.load.lines import P50, P90, P99, launches_of, runs_of
from bench.features.load.plan import Plan
from bench.features.load.service import Bounds, Setup
from bench.features.load.serving import Batching
from bench.features.load.sweep import LOGS, Asked, Services
from bench.measure.block import Method
from bench.measure.limits import Limits
from bench.pipeline.sweep import Sweep
from bench.pipeline.sweep_options import Options
from bench.plugins import catalog
from bench.records.store import Record, Store

pytestmark = pytest.mark.slow(seconds=3)

RAW, OTHER = "toy/null/native/raw/null/cpu/b1t1", "toy/null/native/raw/slow/cpu/b1t1"
SLOW = '''
"""The null runtime, which sleeps, and fails at a run that the folder's file `fails` names."""

import time
from pathlib import Path
from bench.plugins.runtimes.null import NullRuntime

class Slow(NullRuntime):
    default_for = ()

    def open(self, artifact, *, task, source, provider, threads):
        session = super().open(artifact, task=task, source=source, provider=provider, threads=threads)
        run, left = session.run, [150]

        def slowly(feeds):
            time.sleep(0.004)
            left[0] -= 1
            if left[0] < 0 and Path(__file__).with_name("fails").exists():
                raise ValueError("tired")
            return run(feeds)

        session.run = slowly
        return session
'''
ASKED = Asked(duration_s=0.5, rate=100.0, latency_ns=40e6, most_launches=1)


class Watcher:
    """An observer that keeps what it is told of cells."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[str, str]] = []

    def cell(self, cell: Cell, outcome: str) -> None:
        self.outcomes.append((cell.path, outcome))

    def stage(self, *_: object) -> None: ...
    def measured(self, *_: object) -> None: ...


@pytest.fixture
def runtimes(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = plugin_folder / "runtimes"
    folder.mkdir()
    (folder / "slow.py").write_text(SLOW)
    catalog.forget()
    for name, value in {"NUM_SLICES": 2, "NUM_PROBING": 1}.items():
        monkeypatch.setattr(sweep, name, value)
    monkeypatch.setattr(capacity, "CAPACITY_S", 0.2)
    monkeypatch.setattr(capacity, "ALONE", 4)
    monkeypatch.setattr(paired, "SLICE_S", 0.2)
    monkeypatch.setattr(paired, "BOUNDS_IN_SLICE", 3)
    monkeypatch.setattr(decisions, "min_samples", lambda percent: 2)
    monkeypatch.setattr(scenarios, "LEAST_SLOWER", 1)
    monkeypatch.setattr(paired, "KEPT_SHARE", 0.2)  # other tests run at the same time
    return folder


def loaded(
    tmp_path: Path, asked: Asked, *cells: str, services: type[Services] = Services, baseline: str | None = None
) -> tuple[dict[str, Record], Watcher, Store]:
    store, watcher = Store(tmp_path / "results", "machine"), Watcher()
    observer: Any = watcher
    chosen = Cell.from_path(baseline) if baseline else None
    settings = Options(method=Method(limits=Limits.of(step_s=60, memory_bytes=2**30)), baseline=chosen)
    measure = services(store, settings.method.limits, observer, asked).measure
    Sweep(store, settings, observer, measure=measure).run([Cell.from_path(cell) for cell in cells])
    return dict(store.current_records()), watcher, store


@pytest.mark.thorough
def test_scenarios_and_turns_are_stored_and_told(runtimes: Path, tmp_path: Path) -> None:
    asked = dataclasses.replace(ASKED, scenarios=(*loadgen.SCENARIOS,))
    records, _, store = loaded(tmp_path, asked, RAW, OTHER)
    for record in records.values():
        runs = {run.scenario: run for run in runs_of(record)}
        assert {*runs} == {*loadgen.SCENARIOS}
        for run in runs.values():
            assert {path.name for path in (store.folder / LOGS / run.run).iterdir()} >= {loadgen.SUMMARY}
            assert run.wrong == 0 < run.checked
            assert len(run.waiting) == len(run.batches) == 240
            assert run.is_valid == (run.reason == "")
        assert runs["server"].settings["server_target_qps"] == 100
        if record.cell.path == OTHER:  # the null runtime is faster than can be foreseen
            assert runs["offline"].is_valid, runs["offline"].reason
        assert runs["offline"].figures["Samples per second"] > 0
        assert min(runs["single_stream"].shape_ns) >= (4e6 if record.cell.path == OTHER else 1)
    (found,) = decisions.turns(records)
    assert (found.baseline.cell.path, found.bound, found.is_plan) == (RAW, (P99, 40_000_000), False)
    raw, other = sorted(found.launches)
    assert (raw.cell.path, other.cell.path) == (RAW, OTHER)
    for statistic in (P50, P90, P99):
        latency = found.latency_ns(other, statistic)
        assert latency is not None
        assert latency.value >= 4e6
    median = found.over_baseline(other, P50).ratio
    assert median is not None
    assert median.value > 1
    rates = [found.highest_rate(way) for way in (raw, other)]
    assert rates[0] is not None
    assert rates[1] is not None
    assert rates[1].value < min(320, rates[0].value)
    text = report.render([*records.values()], [found], format="md", margin=0.02)
    assert "highest rate at p99 &lt;= 40 ms (/s)" in text
    assert "100 requests/s, the same arrivals for all" in text


def test_another_baseline_is_compared_with(runtimes: Path, tmp_path: Path) -> None:
    records, _, _ = loaded(tmp_path, dataclasses.replace(ASKED, latency_ns=None), RAW, OTHER, baseline=OTHER)
    (found,) = decisions.turns(records)
    assert (found.baseline.cell.path, {way.cell.path for way in found.launches}) == (OTHER, {RAW, OTHER})


@pytest.mark.thorough
def test_launches_of_a_second_run_add_up_at_the_same_rate(runtimes: Path, tmp_path: Path) -> None:
    asked = dataclasses.replace(ASKED, rate=None, latency_ns=None)
    loaded(tmp_path, dataclasses.replace(asked, rate=100.0), RAW, OTHER)
    records, _, _ = loaded(tmp_path, asked, RAW, OTHER)
    (found,) = decisions.turns(records)
    assert found.rate == 100
    assert [len(launches) for _, launches in sorted(found.launches.items())] == [4, 2]
    assert {run.settings["server_target_qps"] for run in runs_of(records[RAW])} == {100}


@pytest.mark.thorough
def test_a_session_that_fails_under_load_is_a_row_and_the_others_are_measured(runtimes: Path, tmp_path: Path) -> None:
    (runtimes / "fails").touch()
    records, watcher, _ = loaded(tmp_path, ASKED, RAW, OTHER)
    last = runs_of(records[OTHER])[-1]
    assert not last.is_valid
    assert "tired" in last.reason
    assert any(path == OTHER and "tired" in outcome for path, outcome in watcher.outcomes)
    assert runs_of(records[RAW])[0].figures
    assert launches_of(records[RAW])  # its highest rate is looked for though nothing is compared with it
    assert "tired" in report.render([*records.values()], decisions.turns(records), format="table", margin=0.02)


def test_what_is_overloaded_has_no_figures_and_no_turns(runtimes: Path, tmp_path: Path) -> None:
    bounds = Bounds(most_waiting=100)  # as fewer do not wait for half a second beside the service
    asked = dataclasses.replace(ASKED, rate=2000.0, bounds=bounds)
    records, _, _ = loaded(tmp_path, asked, RAW, OTHER, baseline=OTHER)
    (run,) = runs_of(records[OTHER])
    assert (run.is_valid, run.reason, run.figures, run.shape_ns) == (False, sweep.OVERLOADED, {}, ())
    assert max(run.waiting) >= 100
    assert runs_of(records[RAW])[-1].reason == f"its baseline {OTHER} is overloaded at 2000 requests/s"
    assert decisions.turns(records) == []


@pytest.mark.thorough
def test_a_plan_compares_ways_to_serve(runtimes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "BATCHES", (1, 4))
    records, _, _ = loaded(tmp_path, ASKED, OTHER, services=Plan)
    (found,) = decisions.turns(records)
    assert found.is_plan
    best = found.best()
    assert best is not None
    assert best.setup.batching.most == 4  # a batch sleeps as long as one request
    text = report.render([*records.values()], [found], format="table", margin=0.02)
    assert "x 1 thread, batch <= 4, " in text
    assert "requests/s [" in text


def test_the_ways_to_serve_use_all_cores() -> None:
    assert plan.setups(threads=2, num_cores=8, several_sessions=False) == [
        Setup(instances=4, batching=Batching(most=most)) for most in plan.BATCHES
    ]
    assert {one.at_once for one in plan.setups(threads=3, num_cores=2, several_sessions=True)} == {1}
    several = plan.setups(threads=2, num_cores=8, several_sessions=True)
    assert {(one.instances, one.sessions) for one in several} == {(4, 1), (1, 4)}


def test_pinned_threads_are_told_where_several_are_served_at_once() -> None:
    pytest.importorskip("openvino")
    paths = ["openvino/cpu/b1t1", "openvino/cpu+flush_denormals/b1t1", "openvino/cpu+no_pinning/b1t1", "null/cpu/b1t1"]
    notes = sweep.notes_on_several(Cell.from_path(f"toy/null/native/raw/{path}") for path in paths)
    assert [note.rpartition(" ")[2] for note in notes] == [
        "openvino/cpu+no_pinning",
        "openvino/cpu+flush_denormals+no_pinning",
    ]
