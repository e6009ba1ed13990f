"""One deployment for several machines: the smallest of the largest regrets, and what is sure of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from bench.api.errors import InputError
from bench.api.loss_units import AllowedLoss
from bench.decisions import across_machines
from bench.decisions.across_machines import Everywhere
from bench.decisions.pick import Constraints
from bench.measure.comparison import CELL
from bench.records import folder
from bench.records.folder import Results
from bench.records.store import Record, Store
from bench.report import across_machines as report
from support import records as made
from support.features import needs

BASE = "toy/null/native/raw/null/cpu/b1t1"
BLOCKS = {"a": 1_000_000, "b": 2_000_000, "c": 1_500_000, "d": 1_200_000, "e": 900_000, "f": 1_100_000}
FACTORS = {
    "server": {"quick": 0.3, "even": 0.36, "slow": 0.9, "here": 0.5},
    "laptop": {"quick": 0.6, "even": 0.44, "slow": 0.4, "there": 0.41},
}
"""Latencies over the baseline's: on each machine another cell is the fastest, and one is on neither."""


def cell(name: str, factor: float, *, noise: float = 0.0, seed: int = 0, **more: Any) -> Record:
    random = np.random.default_rng(seed)
    launches = [
        made.launch(block, CELL, round(ns * factor * math.exp(noise * random.normal())), reference=BASE)
        for block, ns in BLOCKS.items()
    ]
    return made.record(BASE.replace("raw", name), *launches, quality=made.quality(**more))


def results(cells: Mapping[str, float], *, noise: float = 0.0, seed: int = 0, speed: int = 1, **more: Any) -> Results:
    blocks = {block: speed * ns for block, ns in BLOCKS.items()}
    more = {"metric_loss": 0.0, **more}
    records = [made.replaced_quality(made.baseline(BASE, **blocks), metric_loss=0.0)]
    for number, (name, factor) in enumerate(cells.items()):
        records.append(cell(name, speed * factor, noise=noise, seed=seed + number, **more))
    current = {one.cell.path: one for one in records}
    store: Any = SimpleNamespace(contents=lambda: SimpleNamespace(current=current, damages=()), folder=Path("machine"))
    return folder.stored(store)


def choose(stored: Mapping[str, Results], **constraints: Any) -> Everywhere:
    rows = across_machines.of_one_request({name: one.rows for name, one in stored.items()})
    return across_machines.choose(stored, rows, Constraints(**constraints))


def test_the_largest_regret_is_the_smallest_and_machines_are_not_mixed() -> None:
    """One machine is seven times as slow as the other, which changes no regret."""
    for speed in (1, 7):
        found = choose({"server": results(FACTORS["server"]), "laptop": results(FACTORS["laptop"], speed=speed)})

        assert {name: row.variant for name, row in found.fastest.items()} == {"server": "quick", "laptop": "slow"}
        names = [regrets.cell.split("/")[3] for regrets in found.ranked]
        assert names == ["even", "quick", "slow", "raw"]
        best = found.ranked[0]
        assert best.on["server"].value == pytest.approx(0.36 / 0.3 - 1, rel=0.01)
        assert best.on["laptop"].value == pytest.approx(0.44 / 0.4 - 1, rel=0.01)
        assert best.worst == best.on["server"]
        assert 0 < best.worst.low < best.worst.value < best.worst.high
        assert found.untold == ()


def test_cells_that_noise_cannot_tell_apart_are_counted() -> None:
    alike = {"one": 0.5, "two": 0.505, "three": 0.51, "far": 2.0}
    found = choose({name: results(alike, noise=0.05, seed=seed) for seed, name in enumerate(("server", "laptop"))})

    assert {one.cell.split("/")[3] for one in (found.ranked[0], *found.untold)} == {"one", "two", "three"}
    assert found.ranked[0].worst.high > 0.03
    assert found.ranked[-1].cell == BASE.replace("raw", "far")
    assert "2 more are not told apart from it" in report.render(found)


def test_intervals_hold_the_regrets_of_the_chosen_cell() -> None:
    """On each of two machines ten cells differ by a few per cent; the chosen one was chosen by its luck, too."""
    held = []
    for trial in range(40):
        random = np.random.default_rng(trial)
        truth = {name: {f"v{n}": 0.5 * math.exp(0.03 * random.normal()) for n in range(10)} for name in ("s", "l")}
        stored = {
            name: results(factors, noise=0.02, seed=1000 * trial + 100 * number)
            for number, (name, factors) in enumerate(truth.items())
        }
        best = choose(stored).ranked[0]
        name = best.cell.split("/")[3]
        regrets = {place: factors[name] / min(factors.values()) - 1 for place, factors in truth.items()}
        held.append(all(best.on[place].low - 1e-6 <= regrets[place] <= best.on[place].high for place in truth))
    assert np.mean(held) >= 0.95


def test_no_regret_is_told_of_a_single_launch() -> None:
    """`quick` was launched once on the laptop, where it is not the fastest; on the server it is known."""
    laptop = results({**FACTORS["laptop"], "even": 0.41}, noise=0.05)
    single = laptop.records[BASE.replace("raw", "quick")]
    records = {**laptop.records, single.cell.path: dataclasses.replace(single, launches=single.launches[:1])}
    store: Any = SimpleNamespace(contents=lambda: SimpleNamespace(current=records, damages=()), folder=Path("machine"))

    found = choose({"server": results(FACTORS["server"]), "laptop": folder.stored(store)})

    quick = next(one for one in found.ranked if "/quick/" in one.cell)
    assert math.isinf(quick.on["laptop"].high)
    assert quick.on["server"].high < 0.1
    assert quick.on["laptop"].low > 0.2
    assert report.over(quick.on["laptop"]).endswith(", not known]")


def test_constraints_hold_on_every_machine() -> None:
    lossy = results(FACTORS["server"], metric_loss=0.3, lost=None)
    stored = {"server": lossy, "laptop": results(FACTORS["laptop"])}

    assert choose(stored, max_metric_loss=AllowedLoss(share=0.5)).ranked[0].cell == BASE.replace("raw", "even")
    assert [regrets.cell for regrets in choose(stored, max_metric_loss=AllowedLoss(share=0.1)).ranked] == [BASE]
    with pytest.raises(InputError, match="no cell of toy, batch 1, 1 thread qualifies in machine"):
        choose(stored, max_size_bytes=1)


def test_a_cell_that_is_the_same_as_another_on_one_machine_has_its_figures() -> None:
    """One machine timed the one, and the other machine the other."""
    stored = {"server": twins(results({"first": 0.5, "far": 2.0}), "second", of="first")}
    stored["laptop"] = twins(results({"second": 0.5, "far": 2.0}), "first", of="second")

    found = choose(stored)

    assert found.ranked[0].cell in (BASE.replace("raw", "first"), BASE.replace("raw", "second"))
    assert found.ranked[0].worst.value == 0


def twins(stored: Results, name: str, *, of: str) -> Results:
    """The same results with a cell that was not timed because it runs the graph of another one."""
    (row,) = [row for row in stored.rows if row.variant == of]
    twin = dataclasses.replace(
        row, cell=BASE.replace("raw", name), variant=name, same_as=row.cell, ratio=None, latency_p50_ns=None
    )
    return dataclasses.replace(stored, rows=[*stored.rows, twin])


def test_one_machine_alone_and_requests_that_machines_do_not_share() -> None:
    one = results(FACTORS["server"])
    with pytest.raises(InputError, match="results of one kind of machine alone: server"):
        choose({"server": one})
    with pytest.raises(InputError, match="no request was measured on all machines"):
        across_machines.of_one_request({"server": one.rows, "laptop": one.rows}, batch=8)
    rows = {
        name: [row for row in one.rows if row.variant in variants]
        for name, variants in (("server", ("raw", "quick")), ("laptop", ("even", "slow")))
    }
    with pytest.raises(InputError, match="no cell qualifies on all machines; on each alone: server 2, laptop 2"):
        across_machines.choose({"server": one, "laptop": one}, rows, Constraints())


def test_the_text_names_each_machine_and_the_pick() -> None:
    stored = {name: results(factors) for name, factors in FACTORS.items()}
    text = report.render(choose(stored))

    assert "4 cells qualify on all 2 machines" in text
    assert f"pick for all machines: {BASE.replace('raw', 'even')}" in text
    assert "where it is worst, its latency is 1.200 [" in text
    lines = {line.split()[0]: line for line in text.splitlines() if line.startswith(("server", "laptop"))}
    assert "quick" in lines["server"]
    assert "1.200 [" in lines["server"]
    assert "1.100 [" in lines["laptop"]


@needs("page")
def test_a_page_of_two_machines_shows_each_and_the_deployment_for_both() -> None:
    from bench.features.page.document import Shown, page

    stored = {name: results(factors) for name, factors in FACTORS.items()}
    shown = [Shown(name=name, records=one.records, rows=one.rows) for name, one in stored.items()]
    rows = {name: one.rows for name, one in stored.items()}
    html = page(shown, margin=0.02, everywhere=across_machines.of_all_requests(stored, rows))

    assert 'href="#on-server-place">server</a><a href="#on-laptop-place">laptop</a>' in html.replace("\n", "")
    assert 'id="on-server-task-toy"' in html
    assert 'id="on-laptop-task-toy"' in html
    numbers = [int(part.split('"')[0]) for part in html.split('<tr data-row="')[1:]]
    assert sorted(numbers) == list(range(10)), "cells of all machines are numbered through"
    assert "On which machine which deployment" in html
    assert "1.200 <small>[" in html
    alone = page(shown[:1], margin=0.02, everywhere=across_machines.of_all_requests(stored, {"server": rows["server"]}))
    assert "On which machine" not in alone
    assert 'id="task-toy"' in alone


def test_results_of_all_machines_are_read_and_this_one_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a-machine", "b-machine"):
        store, found = Store(tmp_path, name), made.baseline(BASE)
        with store.locked():
            for line in (replace(found.header, key="0123abcd"), found.quality, *found.launches):
                assert line is not None
                store.append("0123abcd", line)
    monkeypatch.setattr(folder.machine, "name", lambda: "b-machine")

    assert list(folder.read_all(tmp_path)) == ["b-machine", "a-machine"]
    assert list(folder.read_all(tmp_path / "a-machine")) == ["a-machine"]
    with pytest.raises(InputError, match="no such folder"):
        folder.read_all(tmp_path / "c-machine")
