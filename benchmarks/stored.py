"""The launches of stored results, as the scripts that learn from them see them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.measure import comparison
from bench.measure.comparison import Group
from bench.measure.joint import Observation
from bench.records.measurements import groups
from bench.records.store import Store

RESULTS = Path(__file__).parents[1] / "results"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sweep:
    """The launches of one machine that are fitted together.

    Attributes:
        name: the folder of results, and the machine.
        facts: properties of the machine, see `bench.measure.machine.describe`.
        groups: the launches.
    """

    name: str
    facts: Mapping[str, Any]
    groups: Sequence[Group]

    def observed(self) -> list[list[Observation]]:
        """What the model of the measurement sees, by request."""
        return [seen for seen, _ in comparison.observed(self.groups) if seen]


def published() -> list[Path]:
    """The folders of results in the repository."""
    return sorted(path for path in RESULTS.glob("*/") if any(path.glob("*/*.jsonl")))


def sweeps(results: Sequence[Path], *, searched: bool = False) -> Iterator[Sweep]:
    """The launches in some folders of results.

    Args:
        results: the folders, each of one machine or of several.
        searched: the proposals of searches, rather than all other cells.
    """
    for folder in (folder for path in results for folder in sorted(path.glob("*/")) if any(folder.glob("*.jsonl"))):
        current = Store(folder.parent, folder.name).contents().current
        if own := groups(current)[searched]:
            facts = next(iter(current.values())).header.machine
            yield Sweep(name=f"{folder.parent.name}/{folder.name}", facts=facts, groups=own)
