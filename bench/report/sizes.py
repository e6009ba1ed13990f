"""The tables of a model at several sizes: latency and memory by size, and where the order of deployments changes."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from bench.api.loss_units import AllowedLoss
from bench.api.printable import printable
from bench.decisions import pick
from bench.decisions.sizes import Family, Stretch
from bench.records.ranking import is_ranked, short_name
from bench.records.rows import Row
from bench.report import terminal, writing
from bench.report.columns import unit_of

_NEAR = " *"
NARROWEST_NAME = 28
_KEEPS = f"deployments that lose at most {AllowedLoss()} of the metric"
_TOLD = f"the fastest, or not shown to be slower by more than {100 * pick.WITHIN:g} %"
_LEGEND = (
    f"*: of the {_KEEPS}, {_TOLD}. Memory: growth of the peak resident set over the process with its packages imported."
)
_QUANTITIES = (("latency_p50_ns", "latency p50"), ("model_rss_bytes", "memory"))


def render(families: Sequence[Family], *, format: str) -> str:
    """Tables of each family, as Markdown (`md`) or for a terminal (`table`); empty without families."""
    return "\n".join(_render(family, format) for family in families)


def _render(family: Family, format: str) -> str:
    rows = {
        size: {short_name(row): row for row in group.rows if is_ranked(row)} for size, group in family.groups.items()
    }
    names = sorted({name for by_name in rows.values() for name in by_name}, key=lambda name: _place(family, rows, name))
    title, said = f"{family.task} by {family.dim} ({family.others})", " ".join(words(family))
    tables: list[str] = []
    for key, quantity in _QUANTITIES:
        factor, unit = unit_of(key, [row for by_name in rows.values() for row in by_name.values()])
        titles = (f"{quantity} ({unit}) by {family.dim}", *map(str, family.groups))
        lines = [(name, *(_figure(family, rows, size, name, key, factor) for size in rows)) for name in names]
        tables += _tables(titles, lines, format)
    if format == "md":
        below = writing.escape_markdown(f"{said} {_LEGEND}")
        return f"### {writing.escape_markdown(title)}\n\n" + "\n".join([*tables, below]) + "\n"
    return "\n".join(
        ["\n" + printable(title), *tables, *(writing.on_console(terminal.line(text)) for text in (said, _LEGEND))]
    )


def _figure(
    family: Family, rows: Mapping[int, Mapping[str, Row]], size: int, name: str, key: str, factor: float
) -> str:
    value = getattr(rows[size][name], key) if name in rows[size] else None
    if value is None:
        return writing.DASH
    return f"{value / factor:.4g}" + _NEAR * (key == "latency_p50_ns" and name in family.near[size])


def _tables(titles: Sequence[str], lines: Sequence[Sequence[str]], format: str) -> Iterator[str]:
    """A table as a text; in a terminal, several with as many sizes each as it is wide, and names in whole parts."""
    if format == "md" or not lines:
        yield writing.plain(titles, lines, format=format)
        return
    (head, *names), *columns = zip(titles, *lines, strict=True)
    widths = [2 + max(map(len, column)) for column in columns]
    room, start = writing.terminal_width() - NARROWEST_NAME, 0
    while start < len(columns):
        count = max(1, sum(total <= room for total in itertools.accumulate(widths[start:])))
        chosen = list(zip(*columns[start : start + count], strict=True))
        width = writing.terminal_width() - sum(widths[start : start + count])
        named = [(writing.wrap_name(name, width), *texts) for name, texts in zip(names, chosen[1:], strict=True)]
        yield writing.plain((_wrapped(head, width), *chosen[0]), named, format=format)
        start += count


def _wrapped(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, width))


def _place(family: Family, rows: dict[int, dict[str, Row]], name: str) -> tuple[int, float, str]:
    """The place of a deployment: those that run at most sizes first, and of these the fastest at the largest size."""
    times = [by_name[name].latency_p50_ns or 0.0 for by_name in rows.values() if name in by_name]
    return (-len(times), times[-1], name)


def words(family: Family) -> Iterator[str]:
    """Sentences on the fastest deployment, on the sizes where it is another, and on sizes where none was timed."""
    if not family.stretches:
        yield f"No {_KEEPS} were timed."
        return
    missing = [str(size) for size, near in family.near.items() if not near]
    if len(family.stretches) == 1:
        only = family.stretches[0]
        where = _where(family, only) if missing else f"every {family.dim}"
        yield f"Of the {_KEEPS}, {only.deployment} is at {where} {_TOLD}."
    else:
        yield f"Of the {_KEEPS}, {_TOLD}:"
        for index, stretch in enumerate(family.stretches):
            over = ""
            if stretch.after is not None:
                before = family.stretches[index - 1].deployment
                over = f" (at {stretch.sizes[0]}, {before} takes {writing.interval(stretch.after)} of its time)"
            end = "." if stretch is family.stretches[-1] else ";"
            yield f"{stretch.deployment} at {_where(family, stretch)}{over}{end}"
    if missing:
        yield f"None was timed at {family.dim} {', '.join(missing)}; the table of rows says why."


def _where(family: Family, stretch: Stretch) -> str:
    """The sizes of a stretch, as a range where all sizes in it were timed."""
    *before, last = stretch.sizes
    between = [size for size in family.groups if stretch.sizes[0] <= size <= last]
    if len(before) > 1 and between == list(stretch.sizes):
        return f"{family.dim} {before[0]} to {last}"
    return f"{family.dim} {', '.join(map(str, before))} and {last}" if before else f"{family.dim} {last}"
