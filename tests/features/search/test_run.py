"""A whole search over stubs: the order in which finalists are judged, what ends it, and what is held against what."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.api.cell import Cell
from bench.api.loss_units import ANY, AllowedLoss
from bench.api.names import PluginName, TaskName
from bench.decisions.pick import Constraints
from bench.features.search import confirm, run, saved
from bench.features.search.confirm import Confirmed
from bench.features.search.proposals import LATENCY, MEMORY, SIZE, Proposal
from bench.features.search.saved import SavedSearch
from bench.features.search.search import Outcome
from bench.measure.stats import Estimate
from bench.pipeline.sweep_options import Options
from bench.plugins import catalog
from bench.records.metric_loss import Lost
from support.searches import BASE, made, row, tried

REQUEST = ("net", 1, 1)
FREE = SimpleNamespace(variant=SimpleNamespace(freezes=False))
FIXED = Cell.from_path("net/torch/torch_onnx/int8_dynamic/onnxruntime/cpu/b1t1")
PLAIN = dataclasses.replace(BASE, task=TaskName("net"))
QUIET, MIDDLE, NOISY = ("d", "f", "f"), ("s", "f", "f"), ("s", "s", "f")
LIMITS = Constraints(max_metric_loss=AllowedLoss())


class Net:
    """A task with more held-out samples than its test split has."""

    metric_loss_unit = "share"

    def confirmation(self) -> None:
        raise NotImplementedError


def own(choice: tuple[str, ...]) -> Cell:
    return dataclasses.replace(made().cell(choice), task=TaskName("net"))


class Bed:
    """A search of one design with three proposals, whose losses on all 3,000 held-out samples are given.

    Args:
        lost: by path of a cell of the task, points of 3,000 that it loses, or the fields of its row there.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lost: Mapping[str, Any]) -> None:
        self.measured: list[str] = []
        self._lost, self._folder = lost, tmp_path
        monkeypatch.setattr(run.catalog, "task", lambda _: Net())
        monkeypatch.setattr(run, "Sweep", lambda *_: SimpleNamespace(run=self._run))
        monkeypatch.setattr(run.folder, "stored", self._stored)
        monkeypatch.setattr(run.initial_designs, "matrix", lambda *_: [FIXED, PLAIN])
        monkeypatch.setattr(run.initial_designs, "designs", lambda *_: [made()])
        figures = [(made().plain, 1.0, 0.0), (QUIET, 0.8, 1e-4), (MIDDLE, 0.6, 1e-3), (NOISY, 0.5, 1e-2)]
        outcome = SimpleNamespace(
            design=made(), tried=tuple(tried(choice, ratio=ratio, noise=noise) for choice, ratio, noise in figures)
        )
        outcome.proposals = [Proposal(design=made(), choice=one.choice, tried=one) for one in outcome.tried]
        one = SimpleNamespace(design=made(), outcome=outcome)
        monkeypatch.setattr(run.search, "run", lambda *_: [one])
        monkeypatch.setattr(confirm.catalog, "variants", lambda: {"raw": None, "int8_dynamic": FREE})
        monkeypatch.setattr(confirm.prepare, "skip_reason", lambda _: None)

    def _run(self, cells: Sequence[Cell]) -> None:
        self.measured += [cell.path for cell in cells]

    def _stored(self, _: object, tasks: set[str]) -> Any:
        (task,) = tasks
        cells = [Cell.from_path(path) for path in dict.fromkeys(self.measured)]
        rows = [self._row(cell) for cell in cells if str(cell.task) == task]
        records = {one.cell: SimpleNamespace(quality=SimpleNamespace(lost=self._lost_of(one.cell))) for one in rows}
        nothing = SimpleNamespace(of=lambda _: None, between=lambda *_: None, records=records)
        return SimpleNamespace(rows=rows, records=records, measurements=nothing, folder=self._folder)

    def _row(self, cell: Cell) -> Any:
        ratios = {PLAIN.path: 1.0, FIXED.path: 0.7, own(QUIET).path: 0.8, own(MIDDLE).path: 0.6, own(NOISY).path: 0.5}
        given = self._lost.get(dataclasses.replace(cell, task=TaskName("net")).path)
        more = given if isinstance(given, Mapping) and str(cell.task) != "net" else {}
        figures = {"cell": cell.path, "task": str(cell.task), "variant": cell.variant, "metric_loss": 0.001}
        return row(**{**figures, "ratio": ratios.get(cell.path, 0.9), "latency_p50_ns": 1000, **more})

    def _lost_of(self, path: str) -> Lost | None:
        cell = Cell.from_path(path)
        if str(cell.task) == "net":  # the test split bounds nothing
            return Lost(num_samples=100, score=1.0, most=1.0)
        points = self._lost.get(dataclasses.replace(cell, task=TaskName("net")).path, 0)
        if isinstance(points, Mapping):
            return None
        return Lost(num_samples=3000, score=1.0, most=1.0, points=tuple((number, 1.0) for number in range(points)))

    def run(self, seconds: float = 100) -> run.Searched:
        ends_s = time.monotonic() + seconds
        arguments: list[Any] = [REQUEST, LIMITS, LATENCY, ends_s, None, Options(), None, lambda _: None]
        return run.run(*arguments)

    def search(self) -> Confirmed:
        return self.run().confirmed

    @property
    def asked(self) -> list[str]:
        """The cells that were judged by all held-out samples, in their order."""
        return [path.replace("~confirming", "") for path in self.measured if "~confirming" in path]


def paths(*choices: tuple[str, ...]) -> list[str]:
    return [own(choice).path for choice in choices]


def test_the_quietest_is_judged_first_and_what_loses_too_much_ends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bed = Bed(monkeypatch, tmp_path, {own(MIDDLE).path: 60, FIXED.path: 60})
    found = bed.search()
    rivals = [FIXED.path, PLAIN.path]
    assert bed.asked == [*rivals, *paths(QUIET, MIDDLE)], "the noisiest would keep it, and is not asked any more"
    assert found.keepers == paths(QUIET)
    assert found.fixed is not None
    assert found.fixed.cell == PLAIN.path, "the fixed matrix is judged by the same samples"
    assert found.winner is not None
    assert found.winner.cell == own(QUIET).path


def test_what_loses_too_much_hides_no_plain_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    many = [dataclasses.replace(FIXED, exporter=PluginName(f"torch_onnx{number}")) for number in range(run.ASKED + 2)]
    bed = Bed(monkeypatch, tmp_path, {cell.path: 60 for cell in many})
    monkeypatch.setattr(run.initial_designs, "matrix", lambda *_: [*many, PLAIN])
    monkeypatch.setattr(run.initial_designs, "is_lossless", lambda variant: variant == "raw")
    ratios = {cell.path: 0.4 for cell in many} | {PLAIN.path: 0.45}
    rows = bed._row
    monkeypatch.setattr(
        bed, "_row", lambda cell: dataclasses.replace(rows(cell), ratio=ratios.get(cell.path, rows(cell).ratio))
    )
    found = bed.search()
    assert bed.asked[: run.ASKED + 1] == [*(cell.path for cell in many[: run.ASKED]), PLAIN.path]
    assert found.fixed is not None
    assert found.fixed.cell == PLAIN.path
    assert not found.is_searched, "every proposal is slower than the plain model"


def test_a_search_knows_whether_its_time_was_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not Bed(monkeypatch, tmp_path, {}).run().is_cut
    bed = Bed(monkeypatch, tmp_path, {})
    now = iter(range(0, 10**6, 10))  # each look at the clock is ten seconds later
    monkeypatch.setattr(run.time, "monotonic", lambda: float(next(now)))
    assert bed.run(20).is_cut


@pytest.mark.parametrize("how", [{"status": "failed"}, {"fidelity": "broken"}])
def test_a_finalist_that_does_not_work_is_no_test_and_is_not_kept(
    how: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bed = Bed(monkeypatch, tmp_path, {own(MIDDLE).path: how})
    found = bed.search()
    assert bed.asked == [FIXED.path, PLAIN.path, *paths(MIDDLE, NOISY)], "what the fixed matrix beats is not asked"
    assert found.keepers == paths(NOISY)
    assert found.fixed is not None
    assert found.fixed.cell == FIXED.path
    assert found.losses[FIXED.path].num_samples == 3000
    assert not found.is_searched, "they were not measured side by side"


def test_a_stopped_matrix_is_completed_and_a_whole_one_is_not_measured_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bed = Bed(monkeypatch, tmp_path, {})
    bed.search()
    assert bed.measured[0] == FIXED.path
    bed.measured[:] = [FIXED.path]
    stored = bed._stored(None, {"net"})
    assert not confirm.is_partial(stored, [FIXED])
    assert confirm.is_partial(stored, [FIXED, own(QUIET)])
    untimed = SimpleNamespace(rows=[row(cell=FIXED.path, ratio=None)])
    assert confirm.is_partial(untimed, [FIXED])  # type: ignore[arg-type]
    for how in ({"status": "failed"}, {"fidelity": "broken"}, {"same_as": "other"}, {"untimed": "imitated"}):
        done = SimpleNamespace(rows=[row(cell=FIXED.path, ratio=None, **how)])
        assert not confirm.is_partial(done, [FIXED])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("objective", "field", "searched", "fixed", "expected"),
    [
        (SIZE, "size_bytes", 99, 100, True),
        (MEMORY, "peak_rss_bytes", 99, 100, False),
        (MEMORY, "peak_rss_bytes", 90, 100, True),
        (LATENCY, "ratio", 0.5, 0.6, False),
    ],
)
def test_what_beats_the_fixed_matrix(objective: str, field: str, searched: float, fixed: float, expected: bool) -> None:
    mine, other = row(cell="net/a", **{field: searched}), row(cell="net/b", **{field: fixed})
    over = Estimate(value=0.9, low=0.7, high=1.01)
    found = Confirmed(
        objective=objective, finalists=[mine], losses={}, keepers=["net/a"], fixed=other, winner=mine, over_fixed=over
    )
    assert found.is_searched is expected


def test_the_luckiest_of_those_that_were_launched_least_does_not_win() -> None:
    kept = [f"net/{name}" for name in "abcde"]
    rows = [
        row(cell=path, ratio=ratio, size_bytes=9) for path, ratio in zip(kept, (0.1, 0.2, 0.5, 0.4, 0.6), strict=True)
    ]
    more: dict[str, Any] = {"finalists": rows, "losses": {}, "keepers": kept, "fixed": None, "winner": None}
    found = Confirmed(**more, objective=LATENCY, over_fixed=None)
    assert found.best_finalist is rows[3]
    assert list(Confirmed(**more, objective=SIZE, over_fixed=None).timed) == kept, "sizes are what they are"


def test_the_winner_of_an_earlier_search_may_win_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Here another proposal loses too much, and nothing behind it would be asked."""
    outcome = Outcome(design=made(), tried=(tried(made().plain), tried(NOISY)))
    path = own(NOISY).path
    before = SavedSearch(schema=saved.SCHEMA, request=REQUEST, objective=LATENCY, outcomes=(outcome,), winner=path)
    saved.save(tmp_path, before)
    bed = Bed(monkeypatch, tmp_path, {own(MIDDLE).path: 60})
    found = bed.search()
    assert bed.asked == [FIXED.path, PLAIN.path, *paths(NOISY)], "the other proposals are slower than it"
    assert found.keepers == [path]
    (again,) = saved.read(tmp_path)
    assert again.winner == path
    bed = Bed(monkeypatch, tmp_path, {path: 60})
    assert bed.search().keepers == paths(MIDDLE), "it is asked by what is to be kept to now, and so are the others"
    saved.save(tmp_path, dataclasses.replace(before, winner="net/a"))
    bed = Bed(monkeypatch, tmp_path, {own(MIDDLE).path: 60})
    assert bed.search().keepers == [], "no proposal of the search"


def test_the_winner_of_an_earlier_search_is_among_those_that_are_measured_at_length(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(confirm, "TIMED", 1)
    outcome = Outcome(design=made(), tried=(tried(made().plain), tried(MIDDLE)))
    path = own(MIDDLE).path
    saved.save(
        tmp_path, SavedSearch(schema=saved.SCHEMA, request=REQUEST, objective=LATENCY, outcomes=(outcome,), winner=path)
    )
    bed = Bed(monkeypatch, tmp_path, {})
    assert bed.search().keepers == paths(NOISY, MIDDLE)
    assert path in bed.measured[-3:]


def test_a_search_is_kept_after_each_round_with_what_an_earlier_one_tried_of_other_designs(tmp_path: Path) -> None:
    figures = [tried(made().plain), tried(QUIET), tried(NOISY)]
    other = dataclasses.replace(made(), base=dataclasses.replace(BASE, runtime=PluginName("openvino")))
    gone = dataclasses.replace(made(), base=dataclasses.replace(BASE, runtime=PluginName("mnn")))
    outcomes = tuple(Outcome(design=design, tried=tuple(figures)) for design in (made(), other, gone))
    before = SavedSearch(
        schema=saved.SCHEMA, request=REQUEST, objective=SIZE, outcomes=outcomes, winner=own(NOISY).path
    )
    saved.save(tmp_path, before)
    keeping = run.Keeping(tmp_path, REQUEST, SIZE, [made(), other])
    assert keeping.earlier(other) == outcomes[1]
    assert keeping.earlier(gone) is None
    now: Any = SimpleNamespace(outcome=Outcome(design=made(), tried=tuple(figures[:2])), is_sound=True)
    keeping.begun.append(now)
    keeping.keep()
    assert saved.earlier(tmp_path, REQUEST, SIZE) == before, "what was tried is being tried again"
    keeping.keep(is_over=True)
    assert saved.earlier(tmp_path, REQUEST, LATENCY) is None, "a search for another objective"
    found = saved.earlier(tmp_path, REQUEST, SIZE)
    assert found is not None
    assert found.winner == own(NOISY).path
    assert found.outcomes == (now.outcome, outcomes[1]), "a design that is not searched over any more is left out"


def test_in_the_end_all_that_keep_the_metric_may_win(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The test split alone bounds the loss of some of them too loosely, and what may not win is not measured on."""
    bed, most = Bed(monkeypatch, tmp_path, {}), []

    class Noted:
        def __init__(self, _: object, options: Options, *__: object) -> None:
            most.append(options.max_metric_loss)

        def run(self, cells: Sequence[Cell]) -> None:
            bed._run(cells)

    monkeypatch.setattr(run, "Sweep", Noted)
    bed.search()
    assert most[-1] == ANY
    assert ANY not in most[:-1]


@pytest.mark.parametrize(
    ("name", "further"), [("albert@tokens=64", True), ("super_resolution@height=32,width=32", False)]
)
def test_a_task_at_other_sizes_has_the_held_out_samples_of_its_own(name: str, further: bool) -> None:
    assert run.has_further_samples(catalog.task(name)) == further
