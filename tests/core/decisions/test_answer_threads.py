"""One answer over numbers of threads: the fewest whose cell was not shown to be slower."""

from __future__ import annotations

from bench.decisions.answer import Answer
from bench.records.store import Record
from bench.report import outcome
from bench.report import pick as pick_report
from support.answers import BASE, TWO, answer, baseline, cell

FOUR = BASE.replace("t1", "t4")


def at(path: str, factor: float, noise: float = 0.001) -> list[Record]:
    """A baseline and a winner, so many times as slow as the baseline at one thread, at some number of threads."""
    return [baseline(path, 2 * factor), cell("fast", factor, noise=noise, beside=path)]


def undecided(path: str, factor: float) -> list[Record]:
    """Two cells that cannot be told apart, and both are faster than their baseline."""
    cells = [cell(name, factor, noise=sign * 0.1, beside=path) for name, sign in (("one", 1), ("other", -1))]
    return [baseline(path, 2 * factor), *cells]


def said(found: Answer) -> list[str]:
    return [*outcome.of_other_threads(found)]


def test_the_fewest_threads_answer_unless_more_are_shown_to_be_faster() -> None:
    found = answer(*at(BASE, 0.5), *at(TWO, 0.9))
    assert found.choice.group.threads == 1
    assert said(found) == ["2 threads: 2 cells qualify, the leading one is shown to be slower than that at 1 thread"]
    found = answer(*at(BASE, 0.5), *at(TWO, 0.5))
    assert found.choice.group.threads == 1
    assert said(found) == [
        "2 threads: 2 cells qualify, the leading one is not shown to be faster than that at 1 thread"
    ]
    found = answer(*at(BASE, 0.5), *at(TWO, 0.1))
    assert found.choice.group.threads == 2
    assert said(found) == ["1 thread: 2 cells qualify, the leading one is shown to be slower than that at 2 threads"]


def test_of_three_numbers_of_threads_nothing_is_said_of_two_that_do_not_differ() -> None:
    """Four threads beat one, and two are between: neither is two shown to be slower than four, nor one than two."""
    found = answer(*at(BASE, 0.5), *at(TWO, 0.3), *at(FOUR, 0.2))
    assert found.choice.group.threads == 2, "the fewest that no other is shown to beat"
    assert said(found) == [
        "1 thread: 2 cells qualify, the leading one is shown to be slower than that at 4 threads",
        "4 threads: 2 cells qualify, the leading one is not shown to be faster than that at 2 threads",
    ]
    found = answer(*at(BASE, 0.5), *at(TWO, 0.45), *at(FOUR, 0.1))
    assert found.choice.group.threads == 4


def test_a_winner_is_not_given_up_for_threads_at_which_nothing_is_decided() -> None:
    found = answer(*at(BASE, 0.5), *undecided(TWO, 0.1))
    assert (found.choice.outcome, found.choice.group.threads) == ("winner", 1)
    assert said(found) == [
        "2 threads: 3 cells qualify, the leading one is shown to be faster than that at 1 thread, but not which to ship"
    ]


def test_there_is_no_answer_only_where_no_number_of_threads_has_one() -> None:
    found = answer(*undecided(BASE, 0.5), *undecided(TWO, 0.1))
    assert (found.choice.outcome, found.choice.group.threads) == ("none", 2)
    found = answer(*undecided(BASE, 0.1), *at(TWO, 0.5))
    assert (found.choice.outcome, found.choice.group.threads) == ("winner", 2)


def test_the_tolerance_for_a_winner_is_the_least_over_all_numbers_of_threads() -> None:
    found = answer(*undecided(BASE, 0.5), *undecided(TWO, 0.5))
    assert found.choice.outcome == "none"
    assert found.tolerance is not None
    assert answer(*undecided(BASE, 0.5), *undecided(TWO, 0.5), tolerance=found.tolerance).choice.outcome == "winner"


def test_a_model_that_is_kept_is_kept_at_its_number_of_threads() -> None:
    """At one thread two cells are faster, which cannot be told apart; at two nothing is shown to be faster."""
    slow = [
        cell(name, factor, noise=sign * 0.1, beside=TWO) for name, factor, sign in (("a", 0.97, 1), ("b", 0.98, -1))
    ]
    found = answer(*undecided(BASE, 0.1), baseline(TWO), *slow)
    assert (found.choice.outcome, found.choice.group.threads) == ("keep", 2)
    assert outcome.why_as_it_is(found).startswith("nothing that keeps the metric is shown to be faster at 2 threads; ")
    assert "is shown to be faster than that at 2 threads, but not which to ship" in pick_report.verdict(found, "x", "")
