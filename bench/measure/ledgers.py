"""The cells of a sweep with their launches, in the groups that are compared."""

from __future__ import annotations

import dataclasses
import datetime

import msgspec

from bench.measure import comparison
from bench.measure.block import Result
from bench.measure.comparison import Series
from bench.measure.launch import Launch
from bench.measure.subject import Subject


@dataclasses.dataclass(kw_only=True)
class Ledger:
    """A subject with its launches, those of earlier runs included.

    Attributes:
        failed: whether the subject failed in a block, and gets no further launches.
        num_stale: launches that count for the figures but not towards the goal, because the subject is to be measured
            again.
        may_win: whether the subject may be the deployment to ship.
        tick_ns: time between two values of the clock that times its inferences, where that is a coarse one.
        expected: the latency over the baseline's that earlier sweeps let expect, which orders first launches; 0 where
            nothing is known.
    """

    subject: Subject
    launches: list[Launch] = dataclasses.field(default_factory=list)
    failed: bool = False
    num_stale: int = 0
    may_win: bool = True
    tick_ns: int = 0
    expected: float = 0.0

    @property
    def name(self) -> str:
        """The name of the subject among all subjects of a sweep."""
        return self.subject.key

    def lacks(self, launches: int) -> bool:
        """Whether it is to have so many launches, and has fewer."""
        return not self.failed and len(self.launches) < launches + self.num_stale

    def series(self) -> Series:
        """The launches so far."""
        runtime = self.subject.cell.runtime.listed
        program = self.subject.program or runtime
        launches = tuple(self.launches)
        return Series(name=self.name, program=program, runtime=runtime, launches=launches, tick_ns=self.tick_ns)


@dataclasses.dataclass(kw_only=True)
class Group:
    """Cells that answer the same request, and their common baseline, which may be among them."""

    baseline: Ledger
    ledgers: list[Ledger]

    def launched(self) -> comparison.Group:
        """The group with the launches so far, for `comparison.fit`."""
        return comparison.Group(baseline=self.baseline.series(), cells=[ledger.series() for ledger in self.ledgers])


def note(group: Group, result: Result) -> None:
    """Enter a block's launches and failures into the ledgers; the model of the measurement needs their time."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    ledgers = {ledger.name: ledger for ledger in (group.baseline, *group.ledgers)}
    for subject, launch in result.launches:
        timed = launch if launch.time else msgspec.structs.replace(launch, time=now)
        ledgers[subject.key].launches.append(timed)
    for failure in result.failures:
        ledgers[failure.subject.key].failed = True
