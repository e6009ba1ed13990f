"""What is kept and shown of a search: its figures, its answer, and the search that is read again."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.api.names import TaskName
from bench.features.search import confirm, explain, figures, saved
from bench.features.search import render as report
from bench.features.search.proposals import LATENCY, SIZE, Proposal
from bench.features.search.saved import SavedSearch
from bench.features.search.search import Outcome
from bench.measure.stats import Estimate
from support.searches import Bed, go, made, row, search_of, tried


@pytest.mark.usefixtures("svg_alone")
def test_figures_name_every_design_group_and_letter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Bed(monkeypatch)
    search = search_of()
    go(search, ends_s=1000.0)
    paths = figures.draw([search.outcome], ("net", 1, 1), LATENCY, tmp_path)
    assert [path.name for path in paths] == [
        f"net-b1t1-latency-{name}.{suffix}" for name in ("search", "letters-1") for suffix in ("png", "svg")
    ]
    assert "mixed of torch_onnx on onnxruntime/cpu" in (tmp_path / "net-b1t1-latency-search.svg").read_text()
    letters = (tmp_path / "net-b1t1-latency-letters-1.svg").read_text()
    for text in ("1. A: s", "4. A: d", "2. B: s", "3. C: d", "24 dB", "int8, activations"):
        assert text in letters


@pytest.mark.usefixtures("svg_alone")
def test_letters_that_were_tried_together_alone_have_no_bars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Bed(monkeypatch)
    search = search_of()
    search.begin(1000.0)
    paths = figures.draw([search.outcome], ("net", 1, 1), LATENCY, tmp_path)
    assert {path.stem for path in paths} == {"net-b1t1-latency-search"}
    proposed = next(one for one in search.proposals if one.choice != search.design.plain)
    whole = SavedSearch(schema=saved.SCHEMA, request=("net", 1, 1), objective=LATENCY, outcomes=(search.outcome,))
    assert explain.letters_of([whole], proposed.cell) == []


@pytest.mark.usefixtures("svg_alone")
def test_proposals_with_labels_are_shown_by_what_they_lose_of_the_metric(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Bed(monkeypatch)
    search = search_of()
    go(search, ends_s=1000.0)

    def shown(outcome: Outcome) -> str:
        figures.draw([outcome], ("net", 1, 1), LATENCY, tmp_path)
        return (tmp_path / "net-b1t1-latency-search.svg").read_text()

    lost = tuple(dataclasses.replace(one, metric_loss=one.noise) for one in search.outcome.tried)
    text = shown(dataclasses.replace(search.outcome, tried=lost))
    assert "loss (%)" in text
    assert "fidelity (dB)" in text
    without = shown(search.outcome)
    assert "loss (%)" not in without
    assert "fidelity (dB)" in without


@pytest.mark.usefixtures("svg_alone")
def test_figures_of_a_search_for_size_have_sizes_and_names_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Bed(monkeypatch)
    search = search_of(SIZE)
    go(search, ends_s=1000.0)
    paths = figures.draw([search.outcome], ("net", 1, 1), SIZE, tmp_path)
    assert {path.stem for path in paths} == {"net-b1t1-size-search", "net-b1t1-size-letters-1"}
    assert "size (MB), lower is better" in (tmp_path / "net-b1t1-size-search.svg").read_text()
    assert "size saved (kB)" in (tmp_path / "net-b1t1-size-letters-1.svg").read_text()


def test_searches_of_one_task_for_latency_and_size_are_both_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Bed(monkeypatch)
    search = search_of()
    go(search, ends_s=1000.0)
    for objective in (LATENCY, SIZE):
        outcomes = (search.outcome,)
        saved.save(
            tmp_path, SavedSearch(schema=saved.SCHEMA, request=("net", 1, 1), objective=objective, outcomes=outcomes)
        )
    other = SavedSearch(schema=saved.SCHEMA, request=("net", 1, 1), objective="colour", outcomes=(search.outcome,))
    saved.save(tmp_path, other)
    assert [one.objective for one in saved.read(tmp_path)] == [LATENCY, SIZE], "no other objective has figures"


def test_a_design_of_which_nothing_was_timed_has_no_table() -> None:
    proposals = [
        Proposal(design=made(), choice=made().plain, tried=dataclasses.replace(tried(made().plain), ratio=None))
    ]
    told = report.front_table(proposals, LATENCY)
    assert told.endswith("on onnxruntime/cpu: none of 1 proposals was timed.\n")


def test_the_answer_names_the_winner_and_what_it_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    searched, fixed = row(cell="net/a", size_bytes=5), row(cell="net/b", size_bytes=10)
    over = Estimate(value=0.8, low=0.7, high=0.9)
    parts = {
        "objective": LATENCY,
        "finalists": [searched],
        "losses": {},
        "fixed": fixed,
        "over_fixed": over,
    }
    won = confirm.Confirmed(**parts, keepers=["net/a"], winner=searched)  # type: ignore[arg-type]
    assert won.is_searched
    assert "net/a\nbeats net/b: latency 0.800 [0.700, 0.900] times, size 0.50 times." in report.render(won, [])
    unsure = {**parts, "over_fixed": Estimate(value=0.95, low=0.8, high=1.1)}
    assert not confirm.Confirmed(**unsure, keepers=["net/a"], winner=searched).is_searched  # type: ignore[arg-type]
    lost = confirm.Confirmed(**parts, keepers=["net/a"], winner=fixed)  # type: ignore[arg-type]
    assert (
        "Nothing was shown to beat net/b: the best finalist has 0.800 [0.700, 0.900] times its latency."
        in report.render(lost, [])
    )
    apart = confirm.Confirmed(**{**parts, "over_fixed": None}, keepers=["net/a"], winner=fixed)  # type: ignore[arg-type]
    assert "Nothing was shown to beat net/b: the best finalist was not measured beside it." in report.render(apart, [])
    none = confirm.Confirmed(**parts, keepers=[], winner=fixed)  # type: ignore[arg-type]
    assert "Nothing beats net/b: no finalist keeps the metric." in report.render(none, [])


def test_the_answer_names_what_is_saved_and_says_when_samples_are_too_few() -> None:
    untimed, timed, fixed = (row(cell=f"net/{name}", size_bytes=size) for name, size in (("a", 5), ("b", 7), ("c", 9)))
    parts = {"objective": SIZE, "losses": {}, "over_fixed": None, "finalists": [untimed, timed], "fixed": fixed}
    won = confirm.Confirmed(**parts, keepers=["net/a", "net/b"], winner=timed)  # type: ignore[arg-type]
    assert "net/b\nbeats net/c" in report.render(won, [])
    few = {**parts, "fixed": None, "keepers": [], "winner": None, "too_few": "30 held-out samples are too few"}
    none = confirm.Confirmed(**few)  # type: ignore[arg-type]
    assert "No deployment keeps the metric: 30 held-out samples are too few." in report.render(none, [])
    idle = confirm.Confirmed(**{**parts, "finalists": []}, keepers=[], winner=fixed)  # type: ignore[arg-type]
    assert "Nothing beats net/c: no proposal is expected to." in report.render(idle, [])


def test_the_answer_of_a_search_for_size_is_about_size() -> None:
    small, large = row(cell="net/a", size_bytes=5), row(cell="net/b", size_bytes=10)
    parts = {"objective": SIZE, "losses": {}, "over_fixed": None}
    won = confirm.Confirmed(**parts, finalists=[small], fixed=large, keepers=["net/a"], winner=small)  # type: ignore[arg-type]
    assert "net/a\nbeats net/b: size 0.50 times, latency not measured side by side." in report.render(won, [])
    lost = confirm.Confirmed(**parts, finalists=[large], fixed=small, keepers=["net/b"], winner=small)  # type: ignore[arg-type]
    assert "Nothing beats net/a: the best finalist has 2.00 times its size." in report.render(lost, [])


def test_a_search_whose_plugins_are_gone_is_drawn_without_what_they_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Bed(monkeypatch)
    search = search_of()
    go(search)
    strange = dataclasses.replace(search.outcome.design, variant="no_such", options=())
    drawn = figures.drawings([dataclasses.replace(search.outcome, design=strange)], "net", LATENCY)
    assert len(drawn) == 2


@pytest.mark.parametrize("spoil", ["letters twice", "no letters", "many letters"])
def test_a_kept_search_that_no_search_wrote_is_left_out(
    spoil: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Bed(monkeypatch)
    search = search_of()
    go(search)
    design = search.outcome.design
    if spoil == "no letters":
        parts = (dataclasses.replace(design.parts[0], letters=""), *design.parts[1:])
        design = dataclasses.replace(design, parts=parts)
    else:
        first = "fdsd" if spoil == "letters twice" else "fds" + "".join(map(chr, range(0x4E00, 0x4E20)))
        design = dataclasses.replace(design, letters=(first, *design.letters[1:]))
    outcome = dataclasses.replace(search.outcome, design=design)
    saved.save(
        tmp_path, SavedSearch(schema=saved.SCHEMA, request=("net", 1, 1), objective=LATENCY, outcomes=(outcome,))
    )
    assert saved.read(tmp_path) == []


def test_a_search_is_kept_and_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Bed(monkeypatch)
    search = search_of()
    go(search, ends_s=1000.0)
    whole = SavedSearch(schema=saved.SCHEMA, request=("net", 1, 1), objective=LATENCY, outcomes=(search.outcome,))
    path = saved.save(tmp_path, whole)
    assert saved.read(tmp_path) == [whole]
    best = min(search.proposals, key=lambda one: one.cost(LATENCY))
    cell = dataclasses.replace(best.cell, task=TaskName("net"))
    found = {one.group: one for one in explain.letters_of([whole], cell)}
    assert list(found) == ["1. A", "4. A", "2. B", "3. C"]
    assert found["2. B"].saved == pytest.approx(0.2, abs=0.02)
    assert found["2. B"].noise == pytest.approx(1e-3, rel=0.1)
    assert explain.letters_of([whole], dataclasses.replace(cell, chain=())) == []
    text = path.read_text()
    for harm in (
        ('"schema":1', '"schema":2'),
        ('"groups":[[0]', '"groups":[[7]'),
        ('"choice":["f","f","f","f"]', '"choice":["f","f","f"]'),
        ('"letters":"fds"', '"letters":7'),
        ("{", ""),
    ):
        assert harm[0] in text
        path.write_text(text.replace(*harm))
        assert saved.read(tmp_path) == [], harm
