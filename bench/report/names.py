"""Names of cells in one table of a terminal: the parts of their paths that all rows share stand in its title."""

from __future__ import annotations

import dataclasses

from bench.api.printable import printable
from bench.records.ranking import Group
from bench.records.rows import Row

_PLACE = "CELL"
"""Stands for a row's name in the path of the title."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Names:
    """How the rows of a group are named.

    A name always has the variant and the runtime, and is unique in the group; with what the title says it is a path.

    Attributes:
        group: the rows.
        before: source and exporter, or the source, where all rows have the same and there are several rows.
        behind: the provider where it is so.
    """

    group: Group
    before: tuple[str, ...]
    behind: tuple[str, ...]

    @classmethod
    def of(cls, group: Group) -> Names:
        """The names of a group's rows."""
        sources, exporters, providers = (
            {getattr(row, key) for row in group.rows} for key in ("source", "exporter", "provider")
        )
        if len(group.rows) < 2:
            return cls(group=group, before=(), behind=())
        before = (*sources, *(exporters if len(exporters) == 1 else ())) if len(sources) == 1 else ()
        return cls(group=group, before=before, behind=tuple(providers) if len(providers) == 1 else ())

    def __call__(self, row: Row) -> str:
        """The name of a row, printable."""
        parts = (row.source, row.exporter, row.variant, row.runtime, row.provider)
        return printable("/".join(parts[len(self.before) : len(parts) - len(self.behind)]))

    @property
    def path(self) -> str:
        """The path of each cell, with `_PLACE` for its name: `crnn/CELL/b1t1`."""
        sizes = f"b{self.group.batch}t{self.group.threads}"
        return printable("/".join((self.group.task, *self.before, _PLACE, *self.behind, sizes)))
