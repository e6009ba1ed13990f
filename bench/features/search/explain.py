"""What `bench explain` shows of a cell that a search proposed: what each letter and option costs and saves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from bench.api.cell import Cell
from bench.api.features import ExplanationTable
from bench.features.search import saved
from bench.features.search.design import Choice
from bench.features.search.effects import decibels
from bench.features.search.saved import SavedSearch
from bench.features.search.search import Outcome
from bench.records.folder import Results
from bench.report import writing

TITLE = "What the search chose"
TEXT = (
    "By the proposals of the search, on its own samples: what each choice takes off the latency of the plain export "
    "(below zero it costs time), the fidelity that it alone would leave, and what it adds to the size."
)
COLUMNS = ("group", "letter", "", "saves (%)", "fidelity (dB)", "size (kB)")
_BAR, _BAR_LENGTH = "\N{FULL BLOCK}", 20
"""What bars are drawn with, and the length of the longest."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LetterEffect:
    """What the letter of a group, or an option, does in a cell that a search proposed.

    Attributes:
        group: the nodes of the group, or the name of the option.
        letter: the letter.
        saved: what it takes off the latency, as a share of the base's; None where that is not known.
        noise: power of the error that it adds, over the power of the outputs.
        size_bytes: what it adds to the size.
    """

    group: str
    letter: str
    saved: float | None
    noise: float
    size_bytes: float


def addition(stored: Results, cell: Cell) -> ExplanationTable:
    """The letters and options of a cell, those that save most first; no lines where no search proposed the cell."""
    letters = letters_of(saved.read(stored.folder), cell)
    return ExplanationTable(
        key="letters", content=letters, title=TITLE, text=TEXT, columns=COLUMNS, lines=_lines(letters), num_names=3
    )


def _lines(letters: Sequence[LetterEffect]) -> list[tuple[str, ...]]:
    most = max((abs(effect.saved) for effect in letters if effect.saved is not None), default=0.0) or 1.0
    return [
        (
            effect.group,
            effect.letter,
            _BAR * round(_BAR_LENGTH * max(0.0, effect.saved or 0.0) / most),
            writing.DASH if effect.saved is None else f"{100 * effect.saved:.1f}",
            f"{decibels(effect.noise):.0f}",
            f"{round(effect.size_bytes / 1e3):+d}",
        )
        for effect in sorted(letters, key=lambda effect: -(effect.saved or 0.0))
    ]


def letters_of(searches: Sequence[SavedSearch], cell: Cell) -> list[LetterEffect]:
    """The letters and options of a cell that a search proposed, by what they were measured to do; else none."""
    for outcome in (outcome for search in searches for outcome in search.outcomes):
        for trial in outcome.tried:
            proposed = outcome.design.cell(trial.choice)
            if dataclasses.replace(proposed, task=cell.task) == cell and trial.choice != outcome.design.plain:
                return list(_effects(outcome, trial.choice))
    return []


def _effects(outcome: Outcome, choice: Choice) -> Iterator[LetterEffect]:
    effects = outcome.effects()
    for key in enumerate(choice):
        if key[1] != outcome.design.letters[key[0]][0] and key in effects.distinct:
            yield LetterEffect(
                group=outcome.design.named(key[0]),
                letter=key[1],
                saved=-effects.ratio[key] if key in effects.ratio else None,
                noise=effects.noise.get(key, 0.0),
                size_bytes=effects.size_bytes.get(key, 0.0),
            )
