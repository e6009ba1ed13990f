"""The parts of a search: designs, the effects of letters, the best choice under a limit, and the front."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.api import Part
from bench.api.cell import Cell
from bench.decisions.pick import Constraints
from bench.decisions.search import assignment, confirm, effects, kept, starts
from bench.decisions.search import search as searching
from bench.decisions.search.design import Choice, Design, design
from bench.decisions.search.effects import Tried
from bench.decisions.search.kept import Kept
from bench.decisions.search.search import LATENCY, SIZE, Proposal, front, tried_of
from bench.measure.stats import Estimate
from bench.pipeline.sweep import Options
from bench.records.metric_loss import Lost
from bench.records.rows import Row
from bench.report import search as report
from bench.report.figures import search_plots

BASE = Cell.from_path("net~tuning/torch/torch_onnx/raw/onnxruntime/cpu/b1t1")
RATIO = {(0, "d"): -0.1, (0, "s"): -0.3, (1, "d"): 0.05, (1, "s"): -0.2, (2, "d"): -0.05}
NOISE = {(0, "d"): 1e-4, (0, "s"): 4e-3, (1, "d"): 2e-5, (1, "s"): 1e-3, (2, "d"): 3e-3}


def part(name: str, alike: str, letters: str = "fds", num_weights: int = 100) -> Part:
    return Part(name=name, operator=alike, alike=alike, letters=letters, num_weights=num_weights)


def made() -> Design:
    parts = [part("a", "A"), part("b", "B"), part("c", "C", "fd"), part("d", "A")]
    return design(BASE, "mixed", parts)


def test_parts_that_are_alike_are_a_group_and_small_ones_go_by_operator() -> None:
    found = made()
    assert found.groups == ((0, 3), (1,), (2,))
    assert found.letters == ("fds", "fds", "fd")
    small = [part("a", "Gather 2x8", num_weights=16), part("b", "Gather 4x8", num_weights=32)]
    small = [Part(**{**vars(one), "operator": "Gather"}) for one in small]
    assert design(BASE, "mixed", [*small, part("c", "C", num_weights=10_000)]).groups == ((0, 1), (2,))


def test_the_cell_of_a_choice_spells_every_part() -> None:
    assert made().cell(("f", "f", "f")) == BASE
    assert made().cell(("s", "f", "d")).path == "net~tuning/torch/torch_onnx/mixed-1s1f1d1s/onnxruntime/cpu/b1t1"
    chained = design(Cell.from_path(BASE.path.replace("raw", "onnxsim")), "mixed", [part("a", "A")])
    assert chained.cell(("d",)).variant == "onnxsim+mixed-1d"


def test_first_come_all_letters_everywhere_alone_and_everywhere_but_there() -> None:
    found = made().first()
    assert found[:2] == [("d", "d", "d"), ("s", "s", "f")]
    assert ("f", "s", "f") in found
    assert ("f", "d", "d") in found
    assert ("f", "f", "f") not in found
    assert len(found) == len(set(found))


def test_a_split_group_keeps_its_letters_in_both_halves() -> None:
    coarse = made()
    fine = coarse.split(0)
    assert fine.groups == ((0,), (3,), (1,), (2,))
    for choice in coarse.first():
        assert fine.cell(coarse.refined(choice, 0)) == coarse.cell(choice)


def test_options_are_groups_without_parts() -> None:
    found = design(BASE, "mixed", [part("a", "A")], ["fast", "lean"])
    assert found.letters == ("fds", "-+", "-+")
    assert found.plain == ("f", "-", "-")
    assert found.cell(found.plain) == BASE
    assert found.cell(("f", "-", "+")).path == BASE.path.replace("/cpu/", "/cpu+lean/")
    assert found.cell(("d", "+", "+")).path == BASE.path.replace("raw", "mixed-1d").replace("/cpu/", "/cpu+fast+lean/")
    assert [found.option(group) for group in range(3)] == [None, "fast", "lean"]
    assert ("f", "+", "+") in found.first()
    assert ("f", "-", "+") in found.first()
    alone = design(BASE, None, [], ["fast"])
    assert alone.first() == [("+",)]


def test_parts_with_the_same_weights_stay_in_one_half() -> None:
    parts = [dataclasses.replace(part(str(number), "A"), weights="xy"[number % 2]) for number in range(4)]
    assert design(BASE, "mixed", parts).split(0).groups == ((0, 2), (1, 3))
    assert design(BASE, "mixed", parts[::2]).split(0).groups == ((0,), (1,)), "the same weights, if there is no other"


def tried(choice: Choice, **more: float) -> Tried:
    keys = list(enumerate(choice))
    figures = {
        "ratio": 1 + sum(RATIO.get(key, 0) for key in keys),
        "noise": sum(NOISE.get(key, 0) for key in keys),
        "size_bytes": 1000 - 100 * sum(letter != "f" for letter in choice),
        **more,
    }
    return Tried(**{"choice": choice, "error": 0.002, "memory_bytes": None, **figures})  # type: ignore[arg-type]


def test_effects_are_found_again() -> None:
    found = effects.fit(made(), [tried(choice) for choice in made().first()], tried(made().plain))
    assert found.ratio == pytest.approx(RATIO, abs=0.01)
    assert found.noise == pytest.approx(NOISE, rel=0.01)
    assert found.size_bytes == pytest.approx(dict.fromkeys(RATIO, -100.0), rel=1e-3)
    assert found.noise_of(("s", "f", "d")) == pytest.approx(7e-3, rel=0.01)
    assert found.ratio_of(("s", "f", "d")) == pytest.approx(0.65, abs=0.01)


def test_memory_is_fitted_where_it_was_measured() -> None:
    some = [tried(choice, memory_bytes=900 - 50 * (choice[1] == "s")) for choice in made().first()]
    some[0] = tried(some[0].choice)
    found = effects.fit(made(), some, tried(made().plain, memory_bytes=900))
    assert found.memory_bytes[1, "s"] == pytest.approx(-50, rel=1e-3)
    assert found.memory_bytes[0, "s"] == pytest.approx(0, abs=1e-2)


def test_a_letter_that_was_not_tried_has_no_effect_and_is_not_chosen() -> None:
    some = [choice for choice in made().first() if choice[1] != "s"]
    found = effects.fit(made(), [tried(choice) for choice in some], tried(made().plain))
    assert (1, "s") not in found.ratio
    assert assignment.best(made(), found.ratio, found.noise, 1.0) == ("s", "f", "d")


def test_proposals_without_latency_tell_of_noise_and_size() -> None:
    some = [tried(choice) for choice in made().first()]
    some[0] = Tried(**{**vars(some[0]), "ratio": None})
    found = effects.fit(made(), some, tried(made().plain))
    assert found.noise == pytest.approx(NOISE, rel=0.01)


@pytest.mark.parametrize("limit", [0.0, 1e-5, 1e-4, 2e-3, 4e-3, 5e-3, 8e-3, 1.0])
def test_the_best_choice_is_that_of_all_choices(limit: float) -> None:
    choices = list(itertools.product(*made().letters))
    allowed = [choice for choice in choices if tried(choice).noise <= limit * (1 + 1e-9)]
    expected = min(tried(choice).ratio or 0 for choice in allowed)
    found = assignment.best(made(), RATIO, NOISE, limit)
    assert found is not None
    assert tried(found).noise <= limit * (1 + 1e-6)
    assert tried(found).ratio == pytest.approx(expected)


def test_the_ladder_goes_from_little_noise_to_much() -> None:
    found = effects.fit(made(), [tried(choice) for choice in made().first()], tried(made().plain))
    steps = assignment.ladder(made(), found, found.ratio)
    noises = [found.noise_of(choice) for choice in steps]
    assert noises == sorted(noises)
    assert steps[-1] == ("s", "s", "d")
    assert made().plain not in steps


def proposals() -> list[Proposal]:
    figures = [("fff", 1.0, 0.0), ("dff", 0.8, 1e-4), ("sff", 0.6, 4e-4), ("fsf", 0.7, 5e-4), ("ssf", 0.5, 5e-2)]
    found = [tried(tuple(choice), ratio=ratio, noise=noise) for choice, ratio, noise in figures]
    return [Proposal(design=made(), choice=one.choice, tried=one) for one in found]


def test_the_front_leaves_out_what_is_beaten_in_both() -> None:
    assert ["".join(one.choice) for one in front(proposals(), LATENCY)] == ["ssf", "sff", "dff", "fff"]
    assert ["".join(one.choice) for one in front(proposals(), SIZE)] == ["ssf", "dff", "fff"]


def test_finalists_are_of_the_task_itself_each_with_half_the_noise() -> None:
    found = confirm.finalists(proposals(), LATENCY, "net")
    assert [cell.variant for cell in found] == ["mixed-1d2f1d", "mixed-1s2f1s", "mixed-2s1f1s"], "the quietest first"
    assert {cell.task for cell in found} == {"net"}
    some = confirm.finalists(proposals(), LATENCY, "net", 0.7)
    assert [cell.variant for cell in some] == ["mixed-1s2f1s", "mixed-2s1f1s"], "what is too slow wins nothing"


def test_many_finalists_are_thinned_over_the_whole_front() -> None:
    one = made()
    choices = list(itertools.product(*one.letters))
    steps = [tried(choice, ratio=1 - 0.02 * at, noise=1e-6 * 4.0**at) for at, choice in enumerate(choices[1:11], 1)]
    many = [Proposal(design=one, choice=each.choice, tried=each) for each in steps]
    found = [cell.path for cell in confirm.finalists(many, LATENCY, "net")]
    assert 3 <= len(found) <= confirm.MOST_FINALISTS
    assert found[-1] == dataclasses.replace(many[-1].cell, task="net").path, "the fastest is among them"
    assert found[0] in {dataclasses.replace(each.cell, task="net").path for each in many[:2]}


def test_what_is_to_beat_is_the_best_of_the_matrix_over_the_plain_export() -> None:
    plain = row(cell=BASE.path.replace("~tuning", ""), task="net", ratio=0.6)
    fixed = row(cell="net/b", task="net", ratio=0.3, size_bytes=10)
    assert confirm.cost_to_beat([plain, fixed], fixed, BASE, LATENCY) == pytest.approx(0.5)
    assert confirm.cost_to_beat([plain, fixed], fixed, BASE, SIZE) == 10
    assert confirm.cost_to_beat([fixed], fixed, BASE, LATENCY) == math.inf
    assert confirm.cost_to_beat([plain], None, BASE, LATENCY) == math.inf


@pytest.mark.parametrize(
    ("points", "more_points", "expected"),
    [((), None, True), ((5.0,), None, False), ((5.0,), (), True), ((), (40.0,), False)],
)
def test_a_finalist_keeps_the_metric_by_all_held_out_samples(
    points: tuple[float, ...], more_points: tuple[float, ...] | None, expected: bool
) -> None:
    cell = dataclasses.replace(BASE, task="net")

    def results(task: str, lost: tuple[float, ...]) -> Any:
        told = Lost(num_samples=1000, score=1.0, most=1.0, points=tuple(enumerate(lost)))
        path = dataclasses.replace(cell, task=task).path
        return SimpleNamespace(
            rows=[row(cell=path)], records={path: SimpleNamespace(quality=SimpleNamespace(lost=told))}
        )

    more = None if more_points is None else results("net~confirming", more_points)
    assert confirm.keeps(cell, results("net", points), more, Constraints(max_metric_loss=0.01)) is expected


def row(**more: object) -> Row:
    cell = BASE.path
    figures = {
        "cell": cell,
        "task": BASE.task,
        "source": "torch",
        "exporter": "torch_onnx",
        "variant": "raw",
        "runtime": "onnxruntime",
        "provider": "cpu",
        "batch": 1,
        "threads": 1,
        "status": "ok",
        "fidelity": "drifted",
        "metric_loss": 0.1,
        "size_bytes": 7,
        "ratio": 0.5,
        "ratio_low": 0.48,
        "ratio_high": 0.52,
    }
    return Row(**{**figures, **more})  # type: ignore[arg-type]


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
    assert tried_of(("d",), row(status="failed"), {}) is None
    assert tried_of(("d",), row(fidelity="broken"), {}) is None


def test_noise_of_independent_errors_adds_up() -> None:
    """The model of the search, by a product of two matrices that are each rounded: powers of errors add."""
    draw = np.random.default_rng(0)
    x, w1, w2 = draw.standard_normal((200, 64)), draw.standard_normal((64, 64)), draw.standard_normal((64, 64))

    def power(one: np.ndarray, other: np.ndarray) -> float:
        right = x @ w1 @ w2
        return float(np.mean((x @ one @ other - right) ** 2) / np.mean(right**2))

    near1, near2 = (w + 0.03 * draw.standard_normal(w.shape) for w in (w1, w2))
    assert power(near1, near2) == pytest.approx(power(near1, w2) + power(w1, near2), rel=0.1)


class Bed:
    """Stands in for a sweep and its store: what each choice would measure follows from `RATIO` and `NOISE`.

    Two parts of group 0 differ: the second one brings nine tenths of the noise of both.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, broken: Sequence[str] = ()) -> None:
        self.measured: list[str] = []
        self._broken = broken
        monkeypatch.setattr(searching, "Sweep", lambda *_: SimpleNamespace(run=self._run))
        monkeypatch.setattr(searching.folder, "stored", self._stored)
        monkeypatch.setattr(searching.time, "monotonic", lambda: float(len(self.measured)))

    def _run(self, cells: Sequence[Cell]) -> None:
        self.measured += [cell.path for cell in cells]

    def _stored(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(rows=[self._row(Cell.from_path(path)) for path in self.measured])

    def _row(self, cell: Cell) -> Row:
        letters = "ffff"
        if cell.chain:
            spelled = cell.chain[-1].partition("-")[2]
            letters = "".join(int(count or 1) * letter for count, letter in re.findall(r"(\d*)(\D)", spelled))
        a, b, c, d = letters
        noise = 0.1 * NOISE.get((0, a), 0) + 0.9 * NOISE.get((0, d), 0) + NOISE.get((1, b), 0) + NOISE.get((2, c), 0)
        ratio = 1 + (RATIO.get((0, a), 0) + RATIO.get((0, d), 0)) / 2 + RATIO.get((1, b), 0) + RATIO.get((2, c), 0)
        failed = any(cell.path.endswith(f"/mixed-{one}/onnxruntime/cpu/b1t1") for one in self._broken)
        fidelity = "broken" if failed else "drifted"
        figures = {"ratio": ratio, "ratio_low": ratio - 0.01, "ratio_high": ratio + 0.01, "fidelity": fidelity}
        return row(cell=cell.path, metric_loss=math.sqrt(noise), **figures)


def search_of(objective: str = LATENCY) -> searching.Search:
    return searching.Search(made(), BASE, None, Options(), None, objective, lambda _: None)  # type: ignore[arg-type]


def test_a_search_finds_the_best_choice_under_each_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    bed, search = Bed(monkeypatch), search_of()
    searching.run([search], ends_s=1000.0)
    assert len(bed.measured) == len(set(bed.measured)) < 3**4, "nothing is measured twice, and not everything"
    found = {one.choice: one.tried for one in search.proposals}
    assert search.design.groups == ((0,), (3,), (1,), (2,)), "the group of two parts was cut"
    # Below the noise of the second part in letter s, the best is s for the first part alone.
    quiet = min((one for one in found.items() if one[1].noise <= 2e-3), key=lambda one: one[1].ratio or 1)
    assert quiet[0] == ("s", "d", "s", "f")
    assert min(one.ratio or 1 for one in found.values()) == pytest.approx(1 - 0.3 - 0.2 - 0.05)


def test_a_letter_that_breaks_a_group_alone_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bed, search = Bed(monkeypatch, broken=("1f1s2f",)), search_of()
    searching.run([search], ends_s=1000.0)
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
    searching.run([search], ends_s=1000.0)
    spelled = [re.sub(r".*mixed-(\w+)/.*", r"\1", path) for path in bed.measured[3:]]
    assert spelled
    assert not [text for text in spelled if re.match(r"(\d+d|1f1d|1s1d|1.1d)", text) and text != "2f1d1f"]


def test_time_ends_a_search_between_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    bed, search = Bed(monkeypatch), search_of()
    searching.run([search], ends_s=4.0)
    assert len(bed.measured) <= 4 + searching.AT_ONCE
    assert search.proposals


def test_a_base_that_does_not_run_ends_its_design_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = Bed(monkeypatch)
    monkeypatch.setattr(bed, "_row", lambda cell: row(cell=cell.path, status="failed"))
    search = search_of()
    searching.run([search], ends_s=1000.0)
    assert not search.is_sound
    assert search.proposals == []
    assert len(bed.measured) == 3  # the base, and two letters everywhere


def test_figures_name_every_design_group_and_letter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Bed(monkeypatch)
    search = search_of()
    searching.run([search], ends_s=1000.0)
    paths = search_plots.draw([search.outcome], "net", tmp_path)
    assert [path.name for path in paths] == [
        f"net-{name}.{suffix}" for name in ("search", "letters-1") for suffix in ("png", "svg")
    ]
    assert "mixed of torch_onnx on onnxruntime/cpu" in (tmp_path / "net-search.svg").read_text()
    letters = (tmp_path / "net-letters-1.svg").read_text()
    for text in ("1. A: s", "4. A: d", "2. B: s", "3. C: d", "24 dB", "int8, activations"):
        assert text in letters


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
    won = confirm.Confirmed(**parts, kept=["net/a"], winner=searched)  # type: ignore[arg-type]
    assert won.is_searched
    assert "net/a\nbeats net/b: latency 0.800 [0.700, 0.900] times, size 0.50 times." in report.render(won, [])
    unsure = {**parts, "over_fixed": Estimate(value=0.95, low=0.8, high=1.1)}
    assert not confirm.Confirmed(**unsure, kept=["net/a"], winner=searched).is_searched  # type: ignore[arg-type]
    lost = confirm.Confirmed(**parts, kept=["net/a"], winner=fixed)  # type: ignore[arg-type]
    assert (
        "Nothing was shown to beat net/b: the best finalist has 0.800 [0.700, 0.900] times its latency."
        in report.render(lost, [])
    )
    none = confirm.Confirmed(**parts, kept=[], winner=fixed)  # type: ignore[arg-type]
    assert "Nothing beats net/b: no finalist keeps the metric." in report.render(none, [])


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
    found = {(name, cell.runtime): cell for cell, name in starts.bases("super_resolution", 1, 1, rows)}
    at = "super_resolution~tuning/torch"
    assert found["mixed", "onnxruntime"].path == f"{at}/torch_onnx/onnxsim/onnxruntime/cpu/b1t1"
    assert found["mixed", "openvino"].path == f"{at}/torch_onnx_legacy/onnxsim/openvino/cpu/b1t1"
    assert found["nncf_mixed", "openvino"].variant == "raw"
    assert found[None, "mnn"].exporter == "torch_mnn", "a runtime with options alone"
    assert (None, "openvino") not in found, "options are tried beside the letters"


def test_a_search_is_kept_and_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Bed(monkeypatch)
    search = search_of()
    searching.run([search], ends_s=1000.0)
    whole = Kept(schema=kept.SCHEMA, request=("net", 1, 1), objective=LATENCY, outcomes=(search.outcome,))
    path = kept.keep(tmp_path, whole)
    assert kept.read(tmp_path) == [whole]
    best = min(search.proposals, key=lambda one: one.cost(LATENCY))
    cell = dataclasses.replace(best.cell, task="net")
    found = {one.group: one for one in kept.letters_of([whole], cell)}
    assert list(found) == ["1. A", "4. A", "2. B", "3. C"]
    assert found["2. B"].saved == pytest.approx(0.2, abs=0.02)
    assert found["2. B"].noise == pytest.approx(1e-3, rel=0.1)
    assert kept.letters_of([whole], dataclasses.replace(cell, variant="raw")) == []
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
        assert kept.read(tmp_path) == [], harm
