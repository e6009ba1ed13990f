"""The report of `bench explain`: text for a terminal, Markdown, or JSON with everything in raw units."""

from __future__ import annotations

import collections
import itertools
import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.api import NodeTime
from bench.api.printable import printable
from bench.features.explain.explanation import Explanation, Side, Step
from bench.features.explain.operator_times import Change
from bench.measure.questions import Aims
from bench.pipeline.profiling import NUM_RUNS
from bench.report import writing
from bench.report.templates import Block, fill

WIDTH = 120
MARGIN = Aims().margin
MOST_LINES = 15
"""Lines shown of a table; the JSON has all of them."""
_MOST_OPERATORS = 4
"""Most operators that are named in one list; the others are counted."""
_MARK = "\0"
"""Begins the mark of a block that was set aside."""


def render(explanation: Explanation, *, format: str) -> str:
    """An explanation as `table`, `md` or `json`."""
    if format == "json":
        return writing.as_json(_content(explanation))
    document = _Document(format)
    measured, ratio = explanation.measured, explanation.measured.ratio if explanation.measured else None
    sides = (
        [("before", explanation.before), ("after", explanation.after)]
        if explanation.before
        else [("", explanation.after)]
    )
    text = fill(
        "features/explain/explain.j2",
        filters={"compared": _compared},
        found=explanation,
        title=document.title,
        lines=document.lines,
        compared=_compared,
        counted=_operators,
        num_runs=NUM_RUNS,
        most_operators=_MOST_OPERATORS,
        names=[f"{name:8}{side.cell}".lstrip() for name, side in sides],
        head=_head(document, sides),
        ratio=writing.interval(ratio) if ratio else None,
        verdict=measured.verdict(MARGIN) if measured else None,
        operators=_by_operator(document, explanation),
        changes=_became(document, explanation.changes()),
        additions=[
            (each.title, each.text, document.table(each.columns, each.lines, num_names=each.num_names))
            for each in explanation.additions
            if each.lines
        ],
        steps=_steps(document, explanation.steps),
        commands=[
            f"bench graph diff {shlex.quote(before.path)} {shlex.quote(after.path)}"
            for before, after in itertools.pairwise(explanation.steps)
            if after.removed is not None and not after.is_same
        ],
        **_providers(document, explanation.after),
    )
    return document.write(text)


class _Document:
    """Blocks of text with an empty line between them; a block may be a title, lines that stay as they are, or a table.

    Titles, lines and tables are set aside, and a mark takes their place in the text. No text from a file can hold the
    mark, because the template escapes characters that are not printable.
    """

    def __init__(self, format: str) -> None:
        self._format = format
        self._blocks: list[str] = []

    def title(self, text: str) -> Block:
        return self._set_aside(f"### {text}\n\n" if self._format == "md" else f"{text}\n{'-' * len(text)}\n")

    def lines(self, lines: Sequence[str]) -> Block:
        return self._set_aside("".join(f"    {printable(line)}\n" for line in lines) + "\n") if lines else Block()

    def table(
        self,
        titles: Sequence[str],
        lines: Sequence[Sequence[str]],
        last: Sequence[Sequence[str]] = (),
        *,
        num_names: int = 1,
    ) -> Block:
        """A table of the first lines and the last ones, and how many more there are."""
        shown = [[*map(printable, line)] for line in (*lines[:MOST_LINES], *last)]
        table = self._set_aside(writing.plain(titles, shown, format=self._format, num_names=num_names) + "\n")
        rest = len(lines) - MOST_LINES
        return table if rest <= 0 else Block(f"{table}\n\n{rest} more; --format json has them all.")

    def _set_aside(self, block: str) -> Block:
        self._blocks.append(block)
        return Block(f"{_MARK}{len(self._blocks) - 1}")

    def write(self, text: str) -> str:
        """The whole document: paragraphs are escaped for Markdown, or wrapped for a terminal."""
        return "".join(map(self._written, filter(None, map(str.strip, text.split("\n\n"))))).rstrip("\n") + "\n"

    def _written(self, block: str) -> str:
        if block.startswith(_MARK):
            return self._blocks[int(block.removeprefix(_MARK))]
        if self._format == "md":
            return "\n".join(map(writing.escape_markdown, block.split("\n"))) + "\n\n"
        return textwrap.fill(block, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n\n"


def _head(document: _Document, sides: Sequence[tuple[str, Side]]) -> str:
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
    return document.table(titles, lines)


def _by_operator(document: _Document, explanation: Explanation) -> str:
    operators = explanation.operators()
    if not operators:
        return ""
    sides = [side for side in (explanation.before, explanation.after) if side is not None and side.nodes is not None]
    totals = [side.profiled_ns or 0.0 for side in sides]
    names = ["before: ", "after: "] if len(sides) == 2 else [""]
    titles = ["operator", *(f"{name}{what}" for name in names for what in ("nodes", "ms", "share"))]
    lines = []
    for entry in operators:
        figures = [(entry.before_nodes, entry.before_ns), (entry.after_nodes, entry.after_ns)][-len(sides) :]
        cells = [_figures(nodes, time, total) for (nodes, time), total in zip(figures, totals, strict=True)]
        lines.append([entry.operator, *itertools.chain(*cells)])
    sums = [_figures(len(side.nodes or ()), total, total) for side, total in zip(sides, totals, strict=True)]
    return document.table(titles, lines, [["all", *itertools.chain(*sums)]])


def _figures(nodes: int | None, time_ns: float | None, total_ns: float) -> tuple[str, str, str]:
    if not nodes or time_ns is None:
        return ("", "", "")
    return (str(nodes), writing.milliseconds(time_ns, ".3f"), f"{100 * time_ns / total_ns:.1f} %" if total_ns else "")


def _became(document: _Document, changes: Sequence[Change]) -> str:
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
    return document.table(titles, lines, num_names=2) if lines else ""


def _operators(counts: Mapping[str, int], between: str = ", ") -> str:
    """Operators with their numbers, such as `2 Shape, Gather`; of many, the first ones."""
    chosen = [*counts.items()][:_MOST_OPERATORS]
    texts = [f"{number} " * (number > 1) + name.removeprefix("com.microsoft.") for name, number in chosen]
    rest = sum(counts.values()) - sum(number for _, number in chosen)
    return between.join([*texts, *([f"{rest} other{'s' * (rest > 1)}"] if rest else [])]) or "nothing"


def _steps(document: _Document, steps: Sequence[Step]) -> str:
    titles = ("step", "fewer", "more", "nodes", "changed nodes", "changed weights", "size (MB)")
    lines = []
    for step in steps:
        fewer = more = "the same" if step.is_same else ""
        if not step.is_same and step.removed is not None and step.added is not None:
            fewer, more = (_operators(counts) for counts in (step.removed, step.added))
        figures = [step.num_nodes, step.changed_nodes, step.changed_weights]
        texts = [writing.DASH if figure is None else str(figure) for figure in figures]
        lines.append((step.step, fewer, more, *texts, writing.megabytes(step.size_bytes)))
    return document.table(titles, lines, num_names=3)


def _providers(document: _Document, side: Side) -> dict[str, Any]:
    """The table of `providers`, and as `others` the operators of each provider but the one that takes most time."""
    by_provider: dict[str, list[NodeTime]] = collections.defaultdict(list)
    for node in side.nodes or ():
        by_provider[node.provider].append(node)
    total = side.profiled_ns or 0.0
    ranked = sorted(by_provider.items(), key=lambda item: -_time(item[1]))
    lines = [(name, *_figures(len(part), _time(part), total)) for name, part in ranked]
    counts = [(name, collections.Counter(node.operator for node in part).most_common()) for name, part in ranked[1:]]
    return {
        "providers": document.table(("provider", "nodes", "ms", "share"), lines) if lines else "",
        "others": [(name, _operators(dict(most))) for name, most in counts],
    }


def _time(nodes: Iterable[NodeTime]) -> float:
    return sum(node.time_ns for node in nodes)


def _compared(tensor: Mapping[str, Any]) -> str:
    """A tensor with its error and the operator that computes it."""
    before = [
        text
        for text, now in ((tensor["name_before"], tensor["name"]), (tensor["before"], tensor["after"]))
        if text != now
    ]
    makers = f"{tensor['after']}, before: {' of '.join(reversed(before))}" if before else tensor["after"]
    error = "not a number" if tensor["error"] is None else f"{tensor['error']:.3g}"
    return f"{tensor['name']} ({makers}): error {error}"


def _content(explanation: Explanation) -> dict[str, Any]:
    return {
        "after": _side(explanation.after),
        "before": _side(explanation.before) if explanation.before else None,
        "ratio": explanation.measured.ratio if explanation.measured else None,
        "num_runs": NUM_RUNS,
        "operators": explanation.operators(),
        "changes": explanation.changes(),
        "steps": explanation.steps,
        "drift": explanation.drift,
        "drift_reason": explanation.drift_reason,
        "notes": explanation.notes,
        **{each.key: each.content for each in explanation.additions},
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "cell": side.cell.path,
        **{key: getattr(side.row, key, None) for key in ("latency_p50_ns", "fidelity", "placement", "warning")},
        "artifact": str(side.artifact.path),
        "profiled_ns": side.profiled_ns,
        "nodes": side.nodes,
        "reason": side.reason,
    }
