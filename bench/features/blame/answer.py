"""What a blame says: by how much the sides differ, which parts explain it, and what is left."""

from __future__ import annotations

import collections
import dataclasses
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.api import NodeTime
from bench.features.blame.cuts import Aligned, Node, Part
from bench.features.blame.drifting import Drifted
from bench.features.blame.outcome import Line, Outcome
from bench.measure.stats import Estimate
from bench.report import writing

_MOST_OPERATORS = 4
_LIKE = 1.25
"""Largest ratio of the times of parts with the same operators that count as alike."""
_MOST_OF_ALL = 0.6
"""Share of the difference that one part explains where nothing is said of others like it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Culprit:
    """A part that explains a share of the difference.

    Attributes:
        name: name of its node that takes most of the time, with its operator.
        nodes: names of the suspect's nodes under the first side, and under the second.
        operators: number of these nodes by operator, likewise.
        line: what was measured of it.
        alike: number of further parts with the same operators in both graphs that take about as long.
    """

    name: str
    nodes: tuple[tuple[str, ...], tuple[str, ...]]
    operators: tuple[Mapping[str, int], Mapping[str, int]]
    line: Line
    alike: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blame:
    """The answer.

    Attributes:
        before, after: names of the sides.
        cell: path of the second side's cell.
        outcome: what the search found.
        culprits: the parts that explain the difference, the largest share first.
        num_nodes: nodes of the first side's graph; None where it cannot be cut.
        notes: lines to tell the user: why there is no profile, or why nothing can be cut.
        reproducer: the folder of the reproducer; None where there is none.
    """

    before: str
    after: str
    cell: str
    outcome: Outcome
    culprits: tuple[Culprit, ...] = ()
    num_nodes: int | None = None
    notes: tuple[str, ...] = ()
    reproducer: str | None = None

    @property
    def is_clear(self) -> bool:
        """Whether the two sides clearly differ."""
        return self.outcome.is_different

    @property
    def is_slower(self) -> bool:
        return self.outcome.ratio.value > 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class DriftBlame:
    """The answer where outputs are looked for.

    Attributes:
        before, after, cell, num_nodes, notes, reproducer: as of `Blame`.
        drifted: what the search found.
        name: the node that gives the first tensor beyond the tolerance, with its operator; None where no output drifts.
        nodes, operators: of the smallest part that shows the drift alone, as of `Culprit`.
    """

    before: str
    after: str
    cell: str
    drifted: Drifted
    name: str | None = None
    nodes: tuple[tuple[str, ...], ...] = ((), ())
    operators: tuple[Mapping[str, int], ...] = ({}, {})
    num_nodes: int | None = None
    notes: tuple[str, ...] = ()
    reproducer: str | None = None

    @property
    def is_clear(self) -> bool:
        """Whether an output drifts."""
        return self.drifted.core is not None


def culprits(
    aligned: Aligned,
    outcome: Outcome,
    profiles: Sequence[Sequence[NodeTime] | None],
    times_ns: Sequence[tuple[float, float]] | None,
) -> tuple[Culprit, ...]:
    """The blamed parts with the names of their nodes.

    Args:
        aligned: both sides' graphs.
        outcome: what the search found.
        profiles: the nodes that each side runs.
        times_ns: for each atom, the profiled nanoseconds on both sides; None where there is no profile.
    """
    chosen = []
    for line in outcome.blamed:
        sides, is_atom = aligned.nodes(line.core), line.core.num_atoms == 1
        chosen.append(
            Culprit(
                name=_name(sides, profiles),
                nodes=node_names(sides),
                operators=operators(sides),
                line=line,
                alike=_num_alike(aligned, line.core.start, times_ns) if is_atom and times_ns else 0,
            )
        )
    return tuple(chosen)


def _num_alike(aligned: Aligned, atom: int, times_ns: Sequence[tuple[float, float]]) -> int:
    """Number of other atoms with the same operators that take about as long by the profile of the first side."""
    kind, own_ns = _kind(aligned, Part(start=atom, end=atom + 1)), times_ns[atom][0]
    others = (at for at in range(len(aligned.atoms)) if at != atom and _is_near(times_ns[at][0], own_ns))
    return sum(_kind(aligned, Part(start=at, end=at + 1)) == kind for at in others)


def _is_near(time_ns: float, other_ns: float) -> bool:
    return other_ns / _LIKE <= time_ns <= other_ns * _LIKE


def _kind(aligned: Aligned, part: Part) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(sorted(node.operator for node in side)) for side in aligned.nodes(part))


def node_names(sides: tuple[Sequence[Node], Sequence[Node]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of nodes on both sides."""
    first, second = (tuple(node.name for node in side) for side in sides)
    return first, second


def operators(sides: tuple[Sequence[Node], Sequence[Node]]) -> tuple[dict[str, int], dict[str, int]]:
    """Number of nodes of each operator on both sides."""
    first, second = (dict(collections.Counter(node.operator for node in side).most_common()) for side in sides)
    return first, second


def maker(aligned: Aligned, drifted: Drifted) -> str | None:
    """The node of the first side that gives the first tensor beyond the tolerance, with its operator."""
    if drifted.tensor is None:
        return None
    node = aligned.before.nodes[aligned.before.makers()[drifted.tensor]]
    return _with_operator(node)


def _with_operator(node: Node) -> str:
    return node.name if node.operator in node.name else f"{node.name} ({node.operator})"


def _name(sides: Sequence[Sequence[Node]], profiles: Sequence[Sequence[NodeTime] | None]) -> str:
    """The node that stands for a part: that of the first side which takes most of the time, or else its last."""
    nodes = sides[0] or sides[1]
    times: dict[str, float] = collections.defaultdict(float)
    for kernel in (profiles[0] if sides[0] else profiles[1]) or ():
        for name in kernel.covers or kernel.makes:
            times[name] = max(times[name], kernel.time_ns)
    best = max(nodes, key=lambda node: max((times.get(name, 0.0) for name in node.makes), default=0.0))
    if not any(times.get(name) for name in best.makes):
        best = nodes[-1]
    return _with_operator(best)


def render(blame: Blame | DriftBlame, *, format: str) -> str:
    """The answer as `table`, `md` or `json`; the text ends in a newline."""
    if format == "json":
        return writing.as_json(_finite(dataclasses.asdict(blame)))
    head = _shown([f"A: {blame.before}", f"B: {blame.after}"], format) + "\n" + _shown([headline(blame)], format)
    notes = _shown(blame.notes, format)
    if isinstance(blame, DriftBlame):
        return f"{head}{notes}"
    outcome = blame.outcome
    if not outcome.is_different or outcome.remainder is None or outcome.remainder_share is None:
        return f"{head}{notes}"
    titles = ("part", "of A's latency (%)", "of the difference (%)", "alone, B over A", "nodes")
    lines = [
        (
            each.name + became(each) + (", with its neighbours" if each.line.core != each.line.part else ""),
            percent(each.line.difference),
            percent(each.line.share),
            writing.interval(each.line.ratio),
            str(len(each.nodes[0])),
        )
        for each in blame.culprits
    ]
    for line in outcome.others:
        what = f"between, atoms {line.part.start + 1} to {line.part.end}"
        lines.append((what, percent(line.difference), percent(line.share), writing.interval(line.ratio), ""))
    lines.append(("what these do not add up to", percent(outcome.remainder), percent(outcome.remainder_share), "", ""))
    table = writing.plain(titles, lines, format=format, num_names=1)
    return f"{head}\n{table}\n{notes}{_shown(_remarks(blame), format)}"


def _shown(texts: Iterable[str], format: str) -> str:
    """Texts, which name nodes and files: in Markdown each is a line, and a terminal has them wrapped."""
    if format == "md":
        return "".join(f"{writing.escape_markdown(text)}\n" for text in texts)
    width = writing.terminal_width()
    return "".join(textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False) + "\n" for text in texts)


def _finite(value: Any) -> Any:
    """A value as JSON can hold it: an interval without an end has None there, and so has an error without a bound."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else writing.finite(value)


def headline(blame: Blame | DriftBlame) -> str:
    """One line: the difference, and what explains most of it."""
    if isinstance(blame, DriftBlame):
        return _drift(blame)
    outcome = blame.outcome
    if not outcome.is_different:
        return (
            f"no difference is clear: B takes {writing.interval(outcome.ratio)} times as long as A; nothing is blamed"
        )
    kind = "slower" if blame.is_slower else "faster"
    sign = 1.0 if blame.is_slower else -1.0
    text = f"{kind} by {percent(_grown(outcome.ratio, sign))} %"
    if not blame.culprits:
        return f"{text}; no part of it shows that alone"
    most = blame.culprits[0]
    where = f": reproducer in {blame.reproducer}" if blame.reproducer else ""
    return f"{text}; {100 * most.line.share.value:.0f} % of that is {most.name}{with_alike(most)}{where}"


def with_alike(culprit: Culprit) -> str:
    """What a part may explain together with those like it; empty where there are none, or it explains enough alone."""
    if not _has_alike(culprit):
        return ""
    together, number = 100 * culprit.line.share.value * (culprit.alike + 1), culprit.alike
    several = f"{number} more parts like it, if they are as much slower"
    more = several if number != 1 else "1 more part like it, if it is as much slower"
    return f", and about {together:.0f} % with {more}"


def _has_alike(culprit: Culprit) -> bool:
    return culprit.alike > 0 and culprit.line.share.value < _MOST_OF_ALL


def _drift(blame: DriftBlame) -> str:
    """The sentences of a drift."""
    drifted = blame.drifted
    within = f"tolerance {drifted.tolerance:.3g}"
    if drifted.core is None:
        return f"no output drifts: the largest error is {drifted.error:.3g}, {within}; nothing is blamed"
    text = (
        f"outputs differ by {drifted.error:.3g} of their largest magnitude, {within}; {blame.name} is the first node "
        f"beyond it: {drifted.tensor} differs by {drifted.tensor_error:.3g}, and what it is computed from by less"
    )
    if drifted.part is None:
        return f"{text}. No part shows that alone with the same inputs, so it is no single node's"
    number = len(blame.nodes[0])
    which = f"{number} nodes show" if number != 1 else "that node shows"
    where = f": reproducer in {blame.reproducer}" if blame.reproducer else ""
    before, after = blame.operators
    changed = "" if before == after else f" ({_counted(before)} became {_counted(after)})"
    return f"{text}. Alone with the same inputs {which} {drifted.part_error:.3g}{changed}{where}"


def _grown(ratio: Estimate, sign: float) -> Estimate:
    low, high = sorted((sign * (ratio.low - 1), sign * (ratio.high - 1)))
    return Estimate(value=sign * (ratio.value - 1), low=low, high=high)


def percent(estimate: Estimate) -> str:
    """A share with its interval, in per cent, without the sign."""
    value, low, high = (100 * each for each in (estimate.value, estimate.low, estimate.high))
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"


def became(culprit: Culprit) -> str:
    """Which operators became which, where they are not the same on both sides."""
    before, after = culprit.operators
    return "" if before == after else f": {_counted(before)} became {_counted(after)}"


def _counted(counts: Mapping[str, int]) -> str:
    chosen = [f"{number} " * (number > 1) + name for name, number in [*counts.items()][:_MOST_OPERATORS]]
    rest = sum(counts.values()) - sum([*counts.values()][:_MOST_OPERATORS])
    return " + ".join([*chosen, *([f"{rest} others"] if rest else [])]) or "nothing"


def _remarks(blame: Blame) -> list[str]:
    remarks = []
    seen = {str(each.operators) for each in blame.culprits[:1]}  # by the headline
    for each in blame.culprits:
        if _has_alike(each) and str(each.operators) not in seen:
            seen.add(str(each.operators))
            remarks.append(f"{100 * each.line.share.value:.0f} % is {each.name}{with_alike(each)}")
    if failures := blame.outcome.failures:
        number, reason = len(failures), " ".join(next(iter(failures.values())).split())
        remarks.append(
            f"{number} part{'s' * (number != 1)} could not be run alone, and may be in what is left over: {reason}"
        )
    if blame.outcome.is_cut:
        remarks.append("the budget ended before every part was split that explains more than its share")
    return remarks
