"""The rounds of a search, the front of its proposals, its finalists and what they have to beat."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from types import SimpleNamespace
from typing import Any

import pytest

from bench.api import mixture
from bench.api.cell import Cell
from bench.api.loss_units import AllowedLoss
from bench.api.names import PluginName, TaskName
from bench.decisions.pick import Constraints
from bench.features.search import confirm, initial_designs
from bench.features.search import search as searching
from bench.features.search.design import Design
from bench.features.search.effects import Tried
from bench.features.search.proposals import LATENCY, SIZE, Proposal, front, tried_of
from bench.plugins import tuning
from bench.records.metric_loss import Lost
from bench.records.rows import Row
from support.searches import BASE, NOISE, RATIO, Bed, go, made, proposals, row, search_of, tried


def test_the_front_leaves_out_what_is_beaten_in_both() -> None:
    assert ["".join(one.choice) for one in front(proposals(), LATENCY)] == ["ssf", "sff", "dff", "fff"]
    assert ["".join(one.choice) for one in front(proposals(), SIZE)] == ["ssf", "dff", "fff"]


def test_finalists_are_of_the_task_itself_each_with_half_the_noise() -> None:
    found = confirm.finalists(proposals(), LATENCY, "net")
    assert [cell.variant for cell in found] == ["mixed-1d2f1d", "mixed-1s2f1s", "mixed-2s1f1s"], "the quietest first"
    assert {str(cell.task) for cell in found} == {"net"}
    some = confirm.finalists(proposals(), LATENCY, "net", 0.7)
    assert [cell.variant for cell in some] == ["mixed-1s2f1s", "mixed-2s1f1s"], "what is too slow wins nothing"


def test_what_loses_too_much_of_the_metric_on_the_tuning_samples_is_no_finalist() -> None:
    """And of two that lose alike the quieter one is asked first, but one that loses less before either."""
    one = made()
    figures = [("fff", 1.0, 0.0, 0.0), ("dff", 0.9, 1e-4, 0.004), ("fsf", 0.8, 1e-3, 0.0), ("sff", 0.7, 2e-3, 0.001)]
    figures += [("ssf", 0.5, 1e-3, 0.02), ("sfd", 0.6, 5e-3, 0.009)]
    found = [tried(tuple(choice), ratio=ratio, noise=noise, metric_loss=lost) for choice, ratio, noise, lost in figures]
    many = [Proposal(design=one, choice=each.choice, tried=each) for each in found]
    cells = confirm.finalists(many, LATENCY, "net", max_metric_loss=0.01)
    expected = [many[2], many[3], many[5]]
    assert [cell.variant for cell in cells] == [each.cell.variant for each in expected], "one is slower and loses more"
    assert confirm.finalists(many, LATENCY, "net")[-1].variant == many[4].cell.variant, "nothing is asked of the metric"
    unlabelled = [dataclasses.replace(each, tried=dataclasses.replace(each.tried, metric_loss=None)) for each in many]
    by_noise = confirm.finalists(unlabelled, LATENCY, "net", max_metric_loss=0.01)
    assert [cell.variant for cell in by_noise] == [many[1].cell.variant, many[4].cell.variant]


def test_many_finalists_are_thinned_over_the_whole_front() -> None:
    one = made()
    choices = list(itertools.product(*one.letters))
    steps = [tried(choice, ratio=1 - 0.02 * at, noise=1e-6 * 4.0**at) for at, choice in enumerate(choices[1:11], 1)]
    many = [Proposal(design=one, choice=each.choice, tried=each) for each in steps]
    found = [cell.path for cell in confirm.finalists(many, LATENCY, "net")]
    assert len(found) == len(many), "there are no more than may be asked"
    assert found[-1] == dataclasses.replace(many[-1].cell, task=TaskName("net")).path, "the fastest is among them"
    assert found[0] == dataclasses.replace(many[0].cell, task=TaskName("net")).path, "and so is the quietest"
    few = [cell.path for cell in confirm.finalists(many, LATENCY, "net", number=3)]
    assert len(few) == 3
    assert (few[0], few[-1]) == (found[0], found[-1])


def test_what_is_to_beat_is_the_best_of_the_matrix_over_the_plain_export() -> None:
    plain = row(cell=BASE.path.replace("~tuning", ""), task="net", ratio=0.6)
    fixed = row(cell="net/b", task="net", ratio=0.3, size_bytes=10)
    assert confirm.cost_to_beat([plain, fixed], fixed.cell, BASE, LATENCY) == pytest.approx(0.5)
    assert confirm.cost_to_beat([plain, fixed], fixed.cell, BASE, SIZE) == 10
    assert confirm.cost_to_beat([fixed], fixed.cell, BASE, LATENCY) == math.inf
    assert confirm.cost_to_beat([plain], None, BASE, LATENCY) == math.inf


@pytest.mark.parametrize(
    ("points", "more_points", "expected"),
    [((), None, True), ((5.0,), None, False), ((5.0,), (), True), ((), (40.0,), False)],
)
def test_a_finalist_keeps_the_metric_by_all_held_out_samples(
    points: tuple[float, ...], more_points: tuple[float, ...] | None, expected: bool
) -> None:
    cell = dataclasses.replace(BASE, task=TaskName("net"))

    def results(task: str, lost: tuple[float, ...]) -> Any:
        told = Lost(num_samples=1000, score=1.0, most=1.0, points=tuple(enumerate(lost)))
        path = dataclasses.replace(cell, task=TaskName.parse(task)).path
        return SimpleNamespace(
            rows=[row(cell=path)], records={path: SimpleNamespace(quality=SimpleNamespace(lost=told))}
        )

    more = None if more_points is None else results("net~confirming", more_points)
    assert confirm.keeps(cell, results("net", points), more, Constraints(max_metric_loss=AllowedLoss())) is expected


def test_a_proposal_is_what_its_row_says() -> None:
    found = tried_of(("d",), row(), {})
    assert found == Tried(
        choice=("d",), ratio=0.5, error=pytest.approx(0.0102, abs=1e-4), noise=pytest.approx(0.01), size_bytes=7,
        memory_bytes=None,
    )  # fmt: skip
    twin = row(same_as="other", ratio=None, ratio_low=None, ratio_high=None)
    same = tried_of(("d",), twin, {"other": row(ratio=0.7)})
    assert same is not None
    assert same.ratio == 0.7
    told = tried_of(("d",), row(), {}, {"snr_db": 20.0, tuning.LOST["share"]: 0.003})
    assert told is not None
    assert (told.metric_loss, told.metric_loss_unit) == (0.003, "share")
    in_db = tried_of(("d",), row(), {}, {"snr_db": 20.0, tuning.LOST["dB"]: 0.03})
    assert in_db is not None
    assert (in_db.metric_loss, in_db.metric_loss_unit) == (0.03, "dB")
    risks = [Proposal(design=search_of().design, choice=one.choice, tried=one).risk for one in (told, in_db)]
    assert risks[0] == pytest.approx(risks[1]), "0.1 dB count as much as 1 %, the limits by default"
    assert tried_of(("d",), row(status="failed"), {}) is None
    assert tried_of(("d",), row(fidelity="broken"), {}) is None


def test_a_search_finds_the_best_choice_under_each_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    bed, search = Bed(monkeypatch), search_of()
    go(search, ends_s=1000.0)
    assert len(bed.measured) == len(set(bed.measured)) < 3**4, "nothing is measured twice, and not everything"
    found = {one.choice: one.tried for one in search.proposals}
    assert search.design.groups == ((0,), (3,), (1,), (2,)), "the group of two parts was cut"
    # Below the noise of the second part in letter s, the best is s for the first part alone.
    quiet = min((one for one in found.items() if one[1].noise <= 2e-3), key=lambda one: one[1].ratio or 1)
    assert quiet[0] == ("s", "d", "s", "f")
    assert min(one.ratio or 1 for one in found.values()) == pytest.approx(1 - 0.3 - 0.2 - 0.05)


def test_a_letter_that_breaks_a_group_alone_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bed, search = Bed(monkeypatch, broken=("1f1s2f",)), search_of()
    go(search, ends_s=1000.0)
    last = bed.measured.index("net~tuning/torch/torch_onnx/mixed-1f1s2f/onnxruntime/cpu/b1t1")
    later = bed.measured[last + searching.AT_ONCE :]
    assert not [path for path in later if re.search(r"mixed-(1.1s|2s|1s1s)", path)]
    assert later


def test_a_letter_that_another_one_beats_everywhere_is_tried_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """In letter d everything is slower than the base and noisier than in letter s; group 2 has no other letter."""
    for key in ((0, "d"), (1, "d"), (2, "d")):
        monkeypatch.setitem(RATIO, key, 0.1)
        monkeypatch.setitem(NOISE, key, 9e-3)
    bed, search = Bed(monkeypatch), search_of()
    go(search, ends_s=1000.0)
    spelled = [re.sub(r".*mixed-(\w+)/.*", r"\1", path) for path in bed.measured[3:]]
    assert spelled
    assert not [text for text in spelled if re.match(r"(\d+d|1f1d|1s1d|1.1d)", text) and text != "2f1d1f"]


def test_a_design_far_behind_the_best_is_searched_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = Bed(monkeypatch)
    searches = [search_of(), search_of()]
    monkeypatch.setattr(searching.Search, "best_cost", property(lambda one: 1.0 if one is searches[0] else 1.3))
    begun = []
    monkeypatch.setattr(searching.Search, "go_on", lambda one, _: begun.append(one))
    waiting = iter(searches)
    assert searching.run([one.design for one in searches], lambda *_: next(waiting), 1000.0) == searches
    assert begun == searches[:1]
    assert len(bed.measured) > 2, "each design has begun"


def test_a_choice_too_long_to_be_named_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    bed, search = Bed(monkeypatch), search_of()
    monkeypatch.setattr(mixture, "LONGEST", 2)  # one letter everywhere, such as 4d
    go(search)
    assert {re.sub(r".*/(\S+)/onnxruntime/.*", r"\1", path) for path in bed.measured} == {"raw", "mixed-4d"}


def test_a_search_that_ends_early_leaves_its_time_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(searching.time, "monotonic", lambda: now_s[0])
    searches = [search_of(), search_of()]
    monkeypatch.setattr(searching.Search, "begin", lambda *_: None)
    monkeypatch.setattr(searching.Search, "is_sound", True)
    monkeypatch.setattr(searching.Search, "best_cost", 1.0)
    monkeypatch.setattr(searching.Search, "is_done", property(lambda one: one is searches[1] and now_s[0] > 50))

    def go_on(one: searching.Search, ends_s: float) -> None:
        now_s[0] = ends_s if one is searches[0] else now_s[0] + 1

    monkeypatch.setattr(searching.Search, "go_on", go_on)
    waiting = iter(searches)
    searching.run([one.design for one in searches], lambda *_: next(waiting), 100.0)
    assert now_s[0] == 100.0


def test_latencies_are_over_the_base_of_the_first_design_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    Bed(monkeypatch)
    designs = [dataclasses.replace(made(), base=dataclasses.replace(BASE, runtime=PluginName(name))) for name in "abc"]
    monkeypatch.setattr(searching.Search, "is_sound", property(lambda one: str(one.design.base.runtime) != "a"))
    monkeypatch.setattr(searching.Search, "go_on", lambda *_: None)
    over: list[tuple[str, str]] = []

    def make(one: Design, baseline: Cell) -> searching.Search:
        over.append((str(one.base.runtime), str(baseline.runtime)))
        return search_of()

    begun = searching.run(designs, lambda one, baseline: _with(make(one, baseline), one), 1000.0)
    assert [str(one.design.base.runtime) for one in begun] == ["b", "c"]
    assert over == [("a", "a"), ("b", "b"), ("c", "b")]


def _with(search: searching.Search, design: Design) -> searching.Search:
    search.design = design
    return search


def test_time_ends_a_search_between_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    bed, search = Bed(monkeypatch), search_of()
    go(search, ends_s=4.0)
    assert len(bed.measured) <= 4 + searching.AT_ONCE
    assert search.proposals


def test_a_search_goes_on_from_what_an_earlier_one_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    bed, whole = Bed(monkeypatch), search_of()
    go(whole)
    expected = {one.choice: one.tried for one in whole.proposals}
    bed.measured.clear()
    first = search_of()
    go(first, ends_s=12.0)
    assert 0 < len(first.proposals) < len(expected)
    second = search_of(earlier=first.outcome)
    go(second)
    found = {one.choice: one.tried for one in second.proposals}
    assert {*map("".join, found)} == {*map("".join, expected)}, "both ways lead to the same proposals"
    for one in first.proposals:
        same = second.design.translated(one.choice, first.design)
        assert found[same].number == one.tried.number, "the rounds of the earlier search are counted on"
    assert max(one.number for one in found.values()) > max(one.tried.number for one in first.proposals)


def test_a_search_that_goes_on_keeps_its_finer_groups_and_tries_nothing_else_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bed, first = Bed(monkeypatch), search_of()
    go(first)
    assert len(first.design.groups) == 4
    before = list(bed.measured)
    bed.measured.clear()
    second = search_of(earlier=first.outcome)
    second.begin(2000.0)
    assert second.design.groups == first.design.groups
    spelled = {re.sub(r".*/(\S+)/onnxruntime/.*", r"\1", path) for path in bed.measured}
    assert spelled == {"raw", "mixed-4d", "mixed-2s1f1s"}
    second.go_on(2000.0)
    assert sorted(bed.measured) == sorted(before), "all of them, for they may be stale"
    assert len(second.proposals) == len(first.proposals)


def test_time_ends_the_trying_of_what_an_earlier_search_tried_the_best_first(monkeypatch: pytest.MonkeyPatch) -> None:
    bed, first = Bed(monkeypatch), search_of()
    go(first)
    bed.measured.clear()
    monkeypatch.setattr(searching, "REPLAYED_AT_ONCE", 2)
    second = search_of(earlier=first.outcome)
    go(second, ends_s=5.0)
    assert len(bed.measured) == 5
    assert second.best_cost == first.best_cost


def test_a_base_that_does_not_run_ends_its_design_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = Bed(monkeypatch)
    monkeypatch.setattr(bed, "_row", lambda cell: row(cell=cell.path, status="failed"))
    search = search_of()
    go(search, ends_s=1000.0)
    assert not search.is_sound
    assert search.proposals == []
    assert len(bed.measured) == 3  # the base, and two letters everywhere


def test_a_search_begins_with_the_fastest_export_and_its_optimizers() -> None:
    def timed(path: str, ratio: float) -> Row:
        exporter, variant, runtime = path.split("/")
        cell = f"super_resolution/torch/{exporter}/{variant}/{runtime}/cpu/b1t1"
        return row(cell=cell, variant=variant, ratio=ratio)

    rows = [
        timed("torch_onnx/raw/onnxruntime", 0.6),
        timed("torch_onnx/onnxsim/onnxruntime", 0.5),
        timed("torch_onnx/int8_dynamic/onnxruntime", 0.1),
        timed("torch_onnx_legacy/onnxsim/openvino", 0.4),
    ]
    bases = initial_designs.bases("super_resolution", 1, 1, rows)  # on some processors of bfloat16, too
    found = {(name, str(cell.runtime)): cell for cell, name in bases if str(cell.provider) == "cpu"}
    at = "super_resolution~tuning/torch"
    assert found["mixed", "onnxruntime"].path == f"{at}/torch_onnx/onnxsim/onnxruntime/cpu/b1t1"
    assert found["mixed", "openvino"].path == f"{at}/torch_onnx_legacy/onnxsim/openvino/cpu/b1t1"
    assert found["nncf_mixed", "openvino"].variant == "raw"
    assert str(found[None, "mnn"].exporter) == "torch_mnn", "a runtime with options alone"
    assert (None, "openvino") not in found, "options are tried beside the letters"
