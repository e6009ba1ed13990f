"""What a search may choose, what each choice is estimated to cost, and the best choice under a limit."""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

from bench.api import Part
from bench.api.cell import Cell
from bench.features.search import assignment, effects
from bench.features.search.design import Choice, design
from bench.features.search.effects import Tried
from support.searches import BASE, NOISE, RATIO, made, part, tried


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
        assert fine.translated(choice, coarse) == coarse.refined(choice, 0)


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


def test_effects_are_found_again() -> None:
    found = effects.fit(made(), [tried(choice) for choice in made().first()], tried(made().plain))
    assert found.ratio == pytest.approx(RATIO, abs=0.01)
    assert found.noise == pytest.approx(NOISE, rel=0.01)
    assert found.size_bytes == pytest.approx(dict.fromkeys(RATIO, -100.0), rel=1e-3)


def test_letters_that_were_tried_together_alone_are_not_told_apart() -> None:
    whole = made()
    everything = {(group, letter) for group, letters in enumerate(whole.letters) for letter in letters[1:]}
    assert effects.fit(whole, [tried(choice) for choice in whole.first()], tried(whole.plain)).distinct == everything
    uniform = [tried(whole.uniform(letter)) for letter in ("s", "d")]
    assert effects.fit(whole, uniform, tried(whole.plain)).distinct == frozenset()
    single = next(choice for group, letter, choice in whole.singles() if (group, letter) == (0, "s"))
    assert effects.fit(whole, [*uniform, tried(single)], tried(whole.plain)).distinct == {(0, "s"), (1, "s")}
    assert effects.fit(whole, [], tried(whole.plain)).distinct == frozenset()


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
    noises = [sum(found.noise.get(key, 0.0) for key in enumerate(choice)) for choice in steps]
    assert noises == sorted(noises)
    assert steps[-1] == ("s", "s", "d")
    assert made().plain not in steps


def test_noise_of_independent_errors_adds_up() -> None:
    """The model of the search, by a product of two matrices that are each rounded: powers of errors add."""
    draw = np.random.default_rng(0)
    x, w1, w2 = draw.standard_normal((200, 64)), draw.standard_normal((64, 64)), draw.standard_normal((64, 64))

    def power(one: np.ndarray, other: np.ndarray) -> float:
        right = x @ w1 @ w2
        return float(np.mean((x @ one @ other - right) ** 2) / np.mean(right**2))

    near1, near2 = (w + 0.03 * draw.standard_normal(w.shape) for w in (w1, w2))
    assert power(near1, near2) == pytest.approx(power(near1, w2) + power(w1, near2), rel=0.1)


def test_noise_of_the_base_is_no_letters() -> None:
    """As that of a provider that computes in bfloat16."""
    base = tried(made().plain, noise=1e-4)
    found = effects.fit(made(), [tried(choice, noise=1e-4 + _noise(choice)) for choice in made().first()], base)
    assert found.noise == pytest.approx(NOISE, rel=1e-3)


def _noise(choice: Choice) -> float:
    return sum(NOISE.get(key, 0.0) for key in enumerate(choice))


def test_the_ladder_has_a_step_for_the_quietest_letter_however_noisy_others_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(NOISE, (1, "s"), 0.5)
    found = effects.fit(made(), [tried(choice) for choice in made().first()], tried(made().plain))
    steps = assignment.ladder(made(), found, found.ratio)
    assert steps[0] == ("d", "f", "f"), "12 dB below the limits of the others"


def test_what_the_solver_prints_is_not_printed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    solve = assignment.optimize.milp

    def printing(*arguments: Any, **options: Any) -> Any:
        ctypes.CDLL(None).puts(b"HighsMipSolverData::transformNewIntegerFeasibleSolution")
        return solve(*arguments, **options)

    monkeypatch.setattr(assignment.optimize, "milp", printing)
    print("before", flush=True)
    costs = {(0, "s"): -1.0}
    assert assignment.best(made(), costs, {}, 1.0) is not None
    print("after", flush=True)
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == "before\nafter\n"


def test_letters_without_noise_are_chosen_by_their_costs_together() -> None:
    """As of a model that has options of its runtime alone: the best two of them are tried together."""
    four = design(BASE, None, (), ("a", "b", "c", "d"))
    costs = {(0, "+"): -0.2, (1, "+"): -0.1, (2, "+"): 0.3, (3, "+"): 0.2}
    found = effects.Effects(ratio=costs, noise={}, size_bytes={}, memory_bytes={}, distinct=frozenset(costs))
    assert assignment.ladder(four, found, costs) == [("+", "+", "-", "-")]
    assert assignment.ladder(four, found, dict.fromkeys(costs, 0.1)) == []
