"""The cards of the page: their words are those of `bench best` and `bench pick`, and their command picks the same."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from bench.api.fidelity import EXEMPT
from bench.api.loss_units import DB, SHARE, AllowedLoss
from bench.api.names import TaskName
from bench.decisions.answer import Answer, answers
from bench.decisions.best import Best, best_of
from bench.decisions.constraints import Constraints
from bench.features.page import cards as made_cards
from bench.features.page.cards import Card, cards
from bench.measure.stats import Estimate
from bench.records import ranking
from bench.records.lines import Failure
from bench.records.rows import Row
from bench.records.store import Record
from bench.report import best, outcome, pick, words
from support import records as made
from support.answers import BASE, baseline, cell, stored

QUIET = 0.001


def answered(*cells: Record) -> tuple[list[Row], list[Best], list[Answer]]:
    """The rows, the deployments to ship, and the answers without any."""
    results = stored(*cells)
    found = answers(results.measurements, results.rows, Constraints(max_metric_loss=AllowedLoss()))
    without = [one for one in found if one.choice.leading is None]
    return [*results.rows], best_of(results.measurements, found), without


def cards_of(*cells: Record, **more: Any) -> list[Card]:
    rows, found, without = answered(*cells)
    return cards(ranking.select(rows).groups, found, without, **more)


def text(phrases: Iterable[tuple[str, str]]) -> str:
    return ", ".join(strong + rest for strong, rest in phrases)


def of_task(found: Record, task: str, batch: int = 1) -> Record:
    """The same record of another task or batch, measured beside that task's baseline."""
    own = dataclasses.replace(found.cell, task=TaskName.parse(task), batch=batch)
    beside = BASE.replace("toy", task).replace("b1", f"b{batch}")
    launches = tuple(replace(launch, reference=beside) for launch in found.launches)
    return dataclasses.replace(found, cell=own, launches=launches)


def test_a_winner_in_words() -> None:
    (card,) = cards_of(baseline(), cell("fast", 0.25, noise=QUIET, size=5_190_320, precision="int8"))

    assert (card.title, card.outcome) == ("toy", "winner")
    assert "".join(card.advice) == "ship null, int8, 1 thread"
    assert text(card.speed) == "0.344 ms, 4.0\N{MULTIPLICATION SIGN} as fast as the default of null"
    assert text(card.room) == "5.2 MB file, 400 B peak memory"
    assert card.sure == "no other within the limits is faster (95 %)"
    assert (card.as_fast, card.others, card.faster) == ("", (), None)
    assert card.commands == (("", "bench pick toy"),)


def test_the_model_as_it_is() -> None:
    found = (baseline(), cell("one", 0.97, noise=0.1), cell("other", 0.98, noise=-0.1))
    (card,) = cards_of(*found)
    (one,) = answered(*found)[1]

    assert card.outcome == "keep"
    assert "".join(card.advice) == "ship the model as it is, null, 1 thread"
    assert text(card.speed) == "1.38 ms, the default of null"
    assert card.sure == f"as it is: {outcome.why_as_it_is(one.answer)} (95 %)"
    assert card.as_fast == "2 others may be as fast: null"
    assert [row.variant for row in card.others] == ["one", "other"]
    assert card.commands == (("", "bench pick toy"),), "it picks, and advises no launches"


def test_no_pick_yet_has_the_commands_that_would_decide() -> None:
    found = (baseline(), cell("one", 0.5, noise=0.1), cell("other", 0.51, noise=-0.1))
    (card,) = cards_of(*found, option=" --results mine")
    (one,) = answered(*found)[1]

    assert card.outcome == "none"
    assert "".join(card.advice) == "no pick yet; this looks fastest: null, 1 thread"
    assert card.sure.startswith("not decided: it may be ")
    assert card.commands == (*outcome.missing(one.answer, "bench pick toy", " --results mine"),)
    assert [purpose[:9] for purpose, _ in card.commands] == ["to take o", "to decide"]


def test_nothing_that_keeps_its_metric() -> None:
    lossy = [made.replaced_quality(of_task(one, "lossy"), metric_loss=0.3) for one in (baseline(), cell("a", 0.5))]
    (card,) = cards_of(*lossy)

    assert (card.outcome, card.row, card.advice) == ("none", None, ("nothing to ship yet", ""))
    assert card.sure == "no cell loses at most 1 % of its metric for sure"
    assert card.commands == (("to see why", "bench pick lossy"),)
    assert card.strip is not None
    assert all(mark.is_lossy for mark in card.strip.marks)


def test_nothing_timed() -> None:
    failed = made.record(BASE, quality=None, failure=Failure(stage="prepare", reason="no"), artifact=False)
    (card,) = cards_of(failed)

    assert (card.outcome, card.sure, card.strip) == ("none", "no cell was timed and is right", None)
    assert card.commands == (("to see why", "bench show toy"),)


@pytest.mark.parametrize(
    "found",
    [
        [cell("fast", 0.5, noise=QUIET), cell("near", 0.505, noise=0.01)],
        [cell("one", 0.97, noise=0.1), cell("other", 0.98, noise=-0.1)],
        [cell("one", 0.5, noise=0.1), cell("other", 0.51, noise=-0.1)],
    ],
    ids=["winner", "keep", "none"],
)
def test_card_best_and_pick_say_the_same(found: list[Record]) -> None:
    (card,) = cards_of(baseline(), *found)
    _, (one,), _ = answered(baseline(), *found)
    listed = best.render([one], format="table")
    picked = pick.verdict(one.answer, "bench pick toy", "")

    assert card.row is not None
    assert picked.startswith(f"{card.outcome}: ")
    assert card.row.cell in picked
    assert ranking.short_name(card.row) in listed
    assert card.sure.removesuffix(" (95 %)") in listed
    assert card.as_fast.partition(":")[0] in listed
    assert all(command in picked for purpose, command in card.commands if purpose)


def test_what_is_faster_but_loses_more_is_told_and_hollow() -> None:
    lossy = cell("lossy", 0.2, noise=QUIET, metric_loss=0.3)
    (card,) = cards_of(baseline(), cell("fast", 0.5, noise=QUIET), lossy)

    assert card.faster is not None
    assert card.faster.startswith("null/native/lossy/null/cpu is 2.5x as fast")
    assert card.strip is not None
    assert {mark.row.variant for mark in card.strip.marks if mark.is_lossy} == {"lossy"}
    assert card.strip.pick is not None
    assert card.strip.pick.row.variant == "fast"


def test_a_busy_machine_is_told() -> None:
    rows, found, _ = answered(baseline(), cell("fast", 0.5, noise=QUIET))
    busy = [dataclasses.replace(row, busy_note="other programs held the cores") for row in rows]

    (card,) = cards(ranking.select(busy).groups, found, [])

    assert card.warnings == ("WARNING: toy: other programs held the cores",)


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ((0.138, 0.132, 0.145), "7.2\N{MULTIPLICATION SIGN} as fast as X"),
        ((0.97, 0.96, 0.98), "1.03\N{MULTIPLICATION SIGN} as fast as X"),
        ((0.005, 0.004, 0.006), "200\N{MULTIPLICATION SIGN} as fast as X"),
        ((1.5, 1.4, 1.6), "1.5\N{MULTIPLICATION SIGN} as long as X"),
        ((0.98, 0.9, 1.1), "not shown to differ from X"),
    ],
)
def test_a_ratio_in_words(over: tuple[float, float, float], said: str) -> None:
    value, low, high = over
    assert "".join(made_cards._speed(Estimate(value=value, low=low, high=high), "X")) == said


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"metric": 0.9278, "metric_loss_high": 0.006}, "Accuracy 92.78 % (at most 0.6 % worse)"),
        ({"metric": 0.9278, "metric_loss_high": 0.0}, "Accuracy 92.78 % (same)"),
        ({"metric": 0.9278, "metric_loss": None}, "Accuracy 92.78 %"),
        ({"metric": 0.0041, "metric_name": "cer", "metric_loss": -0.2}, "CER 0.41 % (20 % better)"),
        (
            {"metric": 30.03, "metric_name": "psnr_db", "metric_loss": 0.04, "metric_loss_unit": DB},
            "PSNR 30.03 dB (0.04 dB worse)",
        ),
        ({"metric": 0.0036, "metric_name": "line_cer"}, "Line CER 0.36 % (same)"),
        ({"metric": 0.51, "metric_name": "macro_f1"}, "Macro f1 0.51 (same)"),
        (
            {"metric": 44.0, "metric_name": "snr_db", "metric_loss": 0.0063, "metric_loss_note": "no labels"},
            "Outputs differ by 0.63 % of the signal (no labels)",
        ),
        (
            {"metric": 44.0, "metric_name": "snr_db", "metric_loss": 0.0063, "metric_loss_note": EXEMPT},
            "Outputs differ by 0.63 % of the signal (no labels, so outputs alone are judged)",
        ),
        ({"metric": 120.0, "metric_name": "snr_db"}, "Outputs are the same"),
        ({"metric": None}, ""),
    ],
)
def test_a_metric_in_words(figures: dict[str, Any], said: str) -> None:
    (row, *_) = stored(baseline()).rows
    plain = {"metric_name": "accuracy", "metric_loss": 0.0, "metric_loss_unit": SHARE, "metric_loss_high": None}
    row = dataclasses.replace(row, **{**plain, "metric_loss_note": None, **figures})
    assert "".join(words.metric_in_words(row)) == said


def test_the_command_names_the_batch_where_there_are_several() -> None:
    one = [baseline(), cell("fast", 0.5, noise=QUIET)]
    eight = [of_task(found, "toy", batch=8) for found in one]

    first, second = cards_of(*one, *eight, option=" --results 'my results'")

    assert (first.title, second.title) == ("toy", "toy, batch 8")
    assert first.commands == (("", "bench pick toy --batch 1 --results 'my results'"),)
    assert second.commands == (("", "bench pick toy --batch 8 --results 'my results'"),)


def test_the_command_has_the_globs_that_chose_the_rows_of_its_task_alone() -> None:
    one = [baseline(), cell("fast", 0.5, noise=QUIET)]
    both = [*one, *(of_task(found, "toys") for found in one)]

    def commands(*globs: str) -> list[str]:
        return [command for card in cards_of(*both, globs=globs) for _, command in card.commands]

    assert commands("toy/*", "toys") == ["bench pick 'toy/*'", "bench pick toys"]
    assert commands("*/null/*") == [], "pick takes one task at a time"


def test_a_hostile_name_is_quoted_in_the_command() -> None:
    task = "$(rm -r .) `x`"
    failed = made.record(BASE, quality=None, failure=Failure(stage="prepare", reason="no"), artifact=False)

    (card,) = cards_of(of_task(failed, task), option=" --results mine")

    assert shlex.split(card.commands[0][1]) == ["bench", "show", task, "--results", "mine"]
