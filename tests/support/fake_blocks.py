"""Fake blocks for tests of the rounds: they note who took part, and give launches with a known noise."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from bench.api.cell import Cell
from bench.api.errors import ChildError
from bench.measure import blocks, ledgers, rounds
from bench.measure.block import Failure, Method, Repeats, Result
from bench.measure.comparison import CELL, CONTENDER, CONTROL, REFERENCE
from bench.measure.goal import Goal
from bench.measure.launch import Launch
from bench.measure.ledgers import Group, Ledger
from bench.measure.open_work import Progress
from bench.measure.subject import Subject
from support import records as made

METHOD = Method()
GIB = 2**30
NOISY = [1020, *[960, 1040] * 10]
"""Latencies of the launches of a cell that no number of launches tells from the baseline."""


def subject(variant: str, *, threads: int = 1, rss_bytes: int = 1) -> Subject:
    cell = Cell.from_path(f"toy/null/native/{variant}/null/cpu/b1t{threads}")
    return made.subject(cell, rss_bytes=rss_bytes)


def group(
    *variants: str, threads: int = 1, rss_bytes: int = 1, wanted: bool = True, winners: Sequence[str] = ()
) -> Group:
    """A group whose baseline is `raw`, wanted or only there to be compared with; nobody may win unless named."""
    baseline, *others = (
        Ledger(subject=subject(name, threads=threads, rss_bytes=rss_bytes), launches=[], may_win=name in winners)
        for name in ("raw", *variants)
    )
    return Group(baseline=baseline, ledgers=[*([baseline] if wanted else []), *others])


class Bench:
    """Stands in for `run_block`: notes who took part, and gives launches with a known noise, an hour apart."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.blocks: list[list[str]] = []
        self.repeats: list[Repeats] = []
        self.kept: list[Result] = []
        self.reports: list[Progress] = []
        self.noisy: set[str] = set()
        self.speeds: dict[str, list[int]] = {}
        """Latency of each launch in turn, the last one for all later ones; 1000 for variants that are not named."""
        self.max_s: list[float] = []
        """Seconds that the passes of each block may take."""
        self.room_s: list[float | None] = []
        """The time that each block is to fit."""
        self.brief: list[bool] = []
        self.few_passes: list[bool] = []
        """Whether each block is brief."""
        self.apart: list[bool] = []
        """Whether each block ran without the baseline."""
        self.failing: dict[str, int] = {}
        """Variants that fail, and at which of their blocks."""
        self.seconds_per_block = 10.0
        self.hours = 0
        self.now = 0.0
        self._numbers = itertools.count()
        monkeypatch.setattr(blocks, "run_block", self._run)
        monkeypatch.setattr(rounds, "time", SimpleNamespace(monotonic=lambda: self.now))
        clock = SimpleNamespace(now=lambda zone: made.START + datetime.timedelta(hours=self.hours))
        monkeypatch.setattr(ledgers, "datetime", SimpleNamespace(datetime=clock, UTC=datetime.UTC))

    def _run(
        self,
        baseline: Subject,
        subjects: Sequence[Subject],
        method: Method,
        *,
        out_of_time: Callable[[], bool],
        repeats: Repeats,
    ) -> Result:
        few = {"min_passes": rounds.BRIEF_PASSES, "max_passes": rounds.BRIEF_PASSES}
        self.few_passes.append(method.max_passes == rounds.BRIEF_PASSES)
        brief = {"is_brief": True, "min_passes": rounds.BRIEF_PASSES} if method.is_brief else {}
        of_passes = few if self.few_passes[-1] else brief
        own = {"max_s": method.max_s, "room_s": method.room_s, "has_baseline": method.has_baseline}
        assert method == dataclasses.replace(METHOD, **own, **of_passes)
        self.apart.append(not method.has_baseline)
        self.room_s.append(method.room_s)
        self.max_s.append(method.max_s)
        self.brief.append(method.is_brief)
        self.repeats.append(repeats)
        self.now += self.seconds_per_block
        self.hours += 1
        self.blocks.append([item.cell.variant for item in subjects])
        block = f"block {next(self._numbers)}"
        seats = [(item, CELL if method.has_baseline else CONTENDER) for item in subjects]
        if method.has_baseline:
            seats = [(baseline, REFERENCE), (baseline, CONTROL), *seats]
        failures = tuple(
            Failure(subject=item, stage="measure", error=ChildError("error", "as expected"))
            for item in (baseline, *subjects)
            if self.failing.get(item.cell.variant, 0) == self.launches(item.cell.variant)
        )
        failed = {failure.subject.key for failure in failures}
        if baseline.key in failed:
            return Result(launches=(), failures=failures)
        return Result(
            launches=tuple((item, self._launch(item, role, block)) for item, role in seats if item.key not in failed),
            failures=failures,
        )

    def _launch(self, item: Subject, role: str, block: str) -> Launch:
        variant = item.cell.variant
        speeds = NOISY if variant in self.noisy else self.speeds.get(variant, [1000])
        samples = ((speeds[min(self.launches(variant), len(speeds)) - 1],),) * 5
        return made.launch(block, role, 1000, launch=str(next(self._numbers)), steady_ns=samples, time=None)

    def measure(self, *groups: Group, **goal: Any) -> None:
        rounds.measure(groups, METHOD, Goal(**goal), keep=self.kept.append, report=self.reports.append)

    def launches(self, variant: str) -> int:
        """Blocks that a variant took part in; of the baseline, all."""
        return len(self.blocks) if variant == "raw" else sum(variant in block for block in self.blocks)

    def again(self, *groups: Group, **goal: Any) -> list[list[str]]:
        """The blocks that a second sweep runs."""
        before = len(self.blocks)
        self.measure(*groups, **goal)
        return self.blocks[before:]

    def counts(self) -> Counter[str]:
        return Counter(variant for block in self.blocks for variant in block)
