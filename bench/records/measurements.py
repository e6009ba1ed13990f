"""The model of the measurement, fitted once to the launches of all records."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from bench.measure import comparison, noise
from bench.measure.comparison import Comparison, Fitted, Group, Series
from bench.measure.stats import Effect
from bench.records.measured_cell import Measured, program_of


class Measurements:
    """The cells of all records, compared within the groups that share a baseline.

    What is tried in a search says nothing of the noise of other cells, and so changes none of their figures.

    Attributes:
        records: the current record of each cell path.
    """

    def __init__(self, records: Mapping[str, Measured]) -> None:
        """Fit the model.

        Args:
            records: the current record of each cell path.
        """
        self.records = records
        partition = groups(records)
        self._groups = partition[False] + partition[True]
        self._fits = comparison.fit(partition[False]) + (comparison.fit(partition[True]) if partition[True] else [])
        self._of = {name: fitted for fitted in self._fits for name in fitted.names}

    @property
    def machine_effects(self) -> Mapping[tuple[str, str], Effect]:
        """What each of several machines of one kind does to each program; see `Fitted.machine_effects`."""
        return next((fitted.machine_effects for fitted in self._of.values() if fitted.machine_effects), {})

    @functools.cached_property
    def widening(self) -> Mapping[str, float]:
        """By cell, how many times as wide its interval is as on an idle machine; see `bench.measure.noise`."""
        return noise.widening(self._groups, self._fits)

    def of(self, path: str) -> Fitted | None:
        """The group of a cell; None for a cell that was not timed beside the baseline as it is now."""
        return self._of.get(path)

    def between(self, path: str, other: str) -> Comparison | None:
        """One cell over another of its group; None where one of them was not timed, or nothing connects the two."""
        fitted = self._of.get(path)
        if fitted is None or other not in fitted.names:
            return None
        return fitted.between(path, other)


def groups(records: Mapping[str, Measured]) -> dict[bool, list[Group]]:
    """The groups whose cells are compared: under True those of searches, which are fitted on their own.

    Args:
        records: the current record of each cell path.
    """
    members: dict[str, list[Series]] = {}
    for path, record in records.items():
        baseline = record.launches[-1].reference if record.launches else None
        if baseline is not None and baseline in records and records[baseline].launches:
            members.setdefault(baseline, []).append(_series(path, record))
    partition: dict[bool, list[Group]] = {False: [], True: []}
    for baseline, cells in members.items():
        is_searched = records[baseline].cell.task.is_of_search
        partition[is_searched].append(Group(baseline=_series(baseline, records[baseline]), cells=cells))
    return partition


def _series(path: str, record: Measured) -> Series:
    program = program_of(record.cell.runtime, record.header.versions)
    runtime = record.cell.runtime.listed
    return Series(name=path, program=program, runtime=runtime, launches=record.launches, tick_ns=record.tick_ns)
