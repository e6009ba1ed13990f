"""What `bench explain` prints: text for a terminal, Markdown, or JSON with everything in raw units."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.api import NodeTime
from bench.decisions.explain import NUM_RUNS, Explanation, Side, Step
from bench.decisions.operator_times import Change, OperatorTime
from bench.graphs.file.text import printable
from bench.measure.rounds import Goal
from bench.report import writing

WIDTH = 120
MARGIN = Goal().margin
MOST_LINES = 15
"""Of a table; the JSON has them all."""
MOST_OPERATORS = 4
"""That are named in one place."""
NOTHING = "nothing"


@dataclasses.dataclass(frozen=True)
class Command:
    """Lines to be copied, which are not wrapped."""

    lines: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Table:
    """A table to come: its titles, its texts, and how many of its columns are no figures."""

    titles: Sequence[str]
    lines: Sequence[Sequence[str]]
    num_names: int = 1


Lines = list[str | Command | Table]
"""Paragraphs, commands and tables, in their order."""
Part = tuple[str, Lines]
"""A heading, and what is under it."""


def render(found: Explanation, *, format: str) -> str:
    """An explanation as `table`, `md` or `json`."""
    if format == "json":
        return writing.as_json(_content(found))
    parts = [*_head(found), *_times(found), *_steps(found), *_placement(found), *_drift(found)]
    return "\n".join(_write(title, lines, format) for title, lines in parts)


def _write(title: str, lines: Lines, format: str) -> str:
    texts = [f"### {title}\n" if format == "md" else f"{title}\n{'-' * len(title)}"]
    for line in lines:
        if isinstance(line, Table):
            texts.append(writing.plain(line.titles, line.lines, format=format, num_names=line.num_names))
        elif isinstance(line, Command):
            texts.append("".join(f"    {one}\n" for one in line.lines))
        elif format == "md":
            texts.append(f"{writing.escape_markdown(line)}\n")
        else:
            texts.append(textwrap.fill(line, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n")
    return "\n".join(texts)


def _head(found: Explanation) -> list[Part]:
    sides = [("before", found.before), ("after", found.after)] if found.before else [("", found.after)]
    titles = ("", "measured p50 (ms)", "nodes that ran", "profiled (ms)", "file (MB)")
    lines = [
        (
            name,
            writing.milliseconds(side.row.latency_p50_ns if side.row else None, ".3f"),
            writing.DASH if side.nodes is None else str(len(side.nodes)),
            writing.milliseconds(side.profiled_ns, ".3f"),
            writing.megabytes(side.artifact.size_bytes),
        )
        for name, side in sides
    ]
    notes = [*_ratio(found), *found.notes]
    for _, side in sides:
        if side.row is None:
            notes.append(f"{side.cell} was not measured")
        elif side.row.same_as:
            notes.append(f"{side.cell} was not timed: it is the same graph and weights as {side.row.same_as}")
        elif side.row.reason:
            notes.append(f"{side.cell}: {side.row.reason}")
    names = Command([f"{name:8}{side.cell}".lstrip() for name, side in sides])
    return [("The cells" if found.before else "The cell", [names, Table(titles, lines), *map(printable, notes)])]


def _ratio(found: Explanation) -> list[str]:
    """How the two compare by what was measured."""
    if found.measured is None or found.measured.ratio is None:
        return []
    ratio = found.measured.ratio
    verdict = found.measured.verdict(MARGIN)
    return [
        f"After over before, as measured side by side: {writing.interval(ratio)}{f', {verdict}' if verdict else ''}."
    ]


def _times(found: Explanation) -> list[Part]:
    sides = [side for side in (found.before, found.after) if side is not None]
    reasons = [f"{side.cell}: {side.reason}" for side in sides if side.reason]
    operators = found.operators()
    if not operators:
        return [("Where the time goes", list(map(printable, reasons)))]
    and_noise = "; the two ran one after the other, so small differences say nothing" if found.before else ""
    text = (
        f"From the runtime's own profiler, over {NUM_RUNS} inferences. It takes time itself, so no sum of "
        f"these is a latency{and_noise}."
    )
    parts: list[Part] = [("Where the time goes", [text, *_by_operator(found, operators), *map(printable, reasons)])]
    if changes := found.changes():
        text = (
            "Nodes of both cells in which the same tensors are computed; what one cell alone has goes with a node that "
            "reads it. Those that look alike are put together."
        )
        parts.append(("What became of what", [text, *_became(changes)]))
    return parts


def _by_operator(found: Explanation, operators: Sequence[OperatorTime]) -> Lines:
    sides = [side for side in (found.before, found.after) if side is not None and side.nodes is not None]
    totals = [side.profiled_ns or 0.0 for side in sides]
    names = ["before: ", "after: "] if len(sides) == 2 else [""]
    titles = ["operator", *(f"{name}{what}" for name in names for what in ("nodes", "ms", "share"))]
    texts = []
    for one in operators:
        figures = [(one.before_nodes, one.before_ns), (one.after_nodes, one.after_ns)][-len(sides) :]
        cells = [_figures(nodes, time, total) for (nodes, time), total in zip(figures, totals, strict=True)]
        texts.append([printable(one.operator), *(text for cell in cells for text in cell)])
    all_ = [
        text
        for side, total in zip(sides, totals, strict=True)
        for text in _figures(len(side.nodes or ()), total, total)
    ]
    return _most(titles, texts, [["all", *all_]])


def _figures(nodes: int | None, time_ns: float | None, total_ns: float) -> tuple[str, str, str]:
    if not nodes or time_ns is None:
        return ("", "", "")
    return (str(nodes), writing.milliseconds(time_ns, ".3f"), f"{100 * time_ns / total_ns:.1f} %" if total_ns else "")


def _became(changes: Sequence[Change]) -> Lines:
    titles = ("before", "after", "times", "before: ms", "after: ms", "change (ms)")
    lines = [
        (
            _operators(change.before, " + "),
            _operators(change.after, " + "),
            str(change.count),
            writing.milliseconds(change.before_ns, ".3f"),
            writing.milliseconds(change.after_ns, ".3f"),
            f"{(change.after_ns - change.before_ns) / 1e6:+.3f}",
        )
        for change in changes
    ]
    return _most(titles, lines, num_names=2)


def _most(
    titles: Sequence[str], lines: Sequence[Sequence[str]], last: Sequence[Sequence[str]] = (), *, num_names: int = 1
) -> Lines:
    """A table of the first lines, and how many more there are."""
    table = Table(titles, [*lines[:MOST_LINES], *last], num_names)
    rest = len(lines) - MOST_LINES
    return [table] if rest <= 0 else [table, f"{rest} more; --format json has them all."]


def _operators(counts: Mapping[str, int], between: str = ", ") -> str:
    """`2 Shape, Gather`; the first of many."""
    if not counts:
        return NOTHING
    chosen = dict(counts)
    if len(counts) > MOST_OPERATORS:
        chosen = dict(itertools.islice(counts.items(), MOST_OPERATORS))
    short = {name: name.removeprefix("com.microsoft.") for name in chosen}
    texts = [f"{number} {short[name]}" if number > 1 else short[name] for name, number in chosen.items()]
    rest = sum(counts.values()) - sum(chosen.values())
    return printable(between.join([*texts, *([f"{rest} other{'s' * (rest > 1)}"] if rest else [])]))


def _steps(found: Explanation) -> list[Part]:
    titles = ("step", "fewer", "more", "nodes", "changed nodes", "changed weights", "size (MB)")
    lines = []
    for step in found.steps:
        fewer = more = ""
        if step.is_same:
            fewer = more = "the same"
        elif step.removed is not None and step.added is not None:
            fewer, more = (_operators(counts) for counts in (step.removed, step.added))
        figures = [step.num_nodes, step.changed_nodes, step.changed_weights]
        texts = [writing.DASH if figure is None else str(figure) for figure in figures]
        lines.append((step.step, fewer, more, *texts, writing.megabytes(step.size_bytes)))
    told: Lines = [Table(titles, lines, num_names=3)]
    told += _how_to_see_more(found.steps)
    if found.steps[-1].num_nodes is None:
        told.append(f"Its artifact is no ONNX file but {found.after.artifact.format}: its operators cannot be told.")
    elif found.after.nodes is not None:
        told.append(
            f"Of the {found.steps[-1].num_nodes} nodes of the file, {found.after.cell.runtime} made the "
            f"{len(found.after.nodes)} that ran."
        )
    return [("What each step changed", told)]


def _how_to_see_more(steps: Sequence[Step]) -> list[Command]:
    lines = [
        f"bench graph diff {shlex.quote(before.path)} {shlex.quote(after.path)}"
        for before, after in itertools.pairwise(steps)
        if after.removed is not None and not after.is_same
    ]
    return [Command(lines)] if lines else []


def _placement(found: Explanation) -> list[Part]:
    row, nodes = found.after.row, found.after.nodes
    told: Lines = []
    if row is not None and row.placement:
        told.append(f"When it was measured: {row.placement}.")
    if row is not None and row.warning:
        told.append(f"Warning: {row.warning}.")
    if nodes:
        by_provider: dict[str, list[NodeTime]] = collections.defaultdict(list)
        for node in nodes:
            by_provider[node.provider].append(node)
        total = found.after.profiled_ns or 0.0
        ranked = sorted(by_provider.items(), key=lambda item: -_time(item[1]))
        lines = [(printable(name), *_figures(len(part), _time(part), total)) for name, part in ranked]
        told.append(Table(("provider", "nodes", "ms", "share"), lines))
        for name, part in ranked[1:]:
            counts = collections.Counter(node.operator for node in part)
            told.append(f"{printable(name)} runs: {_operators(dict(counts.most_common()))}.")
    return [("Which provider runs what", told or [f"{found.after.cell.runtime} does not tell."])]


def _time(nodes: Iterable[NodeTime]) -> float:
    return sum(node.time_ns for node in nodes)


def _drift(found: Explanation) -> list[Part]:
    title = "Where drift first appears"
    drift = found.drift
    if drift is None:
        return [(title, [printable(f"Not told: {found.drift_reason}.")])]
    row, first, output = found.after.row, drift["first"], drift["output"]
    how = (
        "Both files answered the first request of the test split, without the runtime's optimizations. An error is the "
        f"largest difference over the largest magnitude; up to {drift['tolerance']:g} is no drift. "
        f"{_number(drift['num_common'], 'tensor')} in common lead to the output; {drift['num_compared']} looked at, by "
        "bisection."
    )
    if first is None:
        told = [f"The outputs agree: {_compared(output)}."]
        if row is not None and row.fidelity in ("drifted", "broken"):
            told.append(
                f"The row is {row.fidelity} all the same: by what the runtime makes of the file, by other samples, or "
                "against another reference."
            )
        return [(title, [printable(" ".join(told)), how])]
    told = [f"In {_compared(first)}."]
    if drift["made_of"]:
        shown = drift["made_of"][:MOST_OPERATORS]
        more = f" and {len(drift['made_of']) - len(shown)} more" if len(drift["made_of"]) > len(shown) else ""
        told.append(f"What it is made of agrees: {'; '.join(map(_compared, shown))}{more}.")
    else:
        told.append("No tensor before it is in both files, but the inputs.")
    told.append(f"Between these: {_operators(drift['between_after'])}; before: {_operators(drift['between_before'])}.")
    if drift["previous"] and drift["previous"]["name"] not in [one["name"] for one in drift["made_of"]]:
        told.append(f"The tensor before it, in the order of the nodes: {_compared(drift['previous'])}.")
    if output["name"] != first["name"]:
        told.append(f"At the output: {_compared(output)}.")
    return [(title, [printable(" ".join(told)), how])]


def _compared(one: Mapping[str, Any]) -> str:
    """A tensor with its error and what makes it."""
    before = [text for text, now in ((one["name_before"], one["name"]), (one["before"], one["after"])) if text != now]
    makers = f"{one['after']}, before: {' of '.join(reversed(before))}" if before else one["after"]
    error = "not a number" if one["error"] is None else f"{one['error']:.3g}"
    return f"{one['name']} ({makers}): error {error}"


def _number(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _content(found: Explanation) -> dict[str, Any]:
    return {
        "after": _side(found.after),
        "before": _side(found.before) if found.before else None,
        "ratio": dataclasses.asdict(found.measured.ratio) if found.measured and found.measured.ratio else None,
        "num_runs": NUM_RUNS,
        "operators": [dataclasses.asdict(one) for one in found.operators()],
        "changes": [dataclasses.asdict(one) for one in found.changes()],
        "steps": [dataclasses.asdict(one) for one in found.steps],
        "drift": found.drift,
        "drift_reason": found.drift_reason,
        "notes": found.notes,
    }


def _side(side: Side) -> dict[str, Any]:
    row = side.row
    return {
        "cell": side.cell.path,
        "latency_p50_ns": row.latency_p50_ns if row else None,
        "fidelity": row.fidelity if row else None,
        "placement": row.placement if row else None,
        "warning": row.warning if row else None,
        "artifact": str(side.artifact.path),
        "profiled_ns": side.profiled_ns,
        "nodes": None if side.nodes is None else [dataclasses.asdict(node) for node in side.nodes],
        "reason": side.reason,
    }
