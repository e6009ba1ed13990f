"""What a blame says: by how much the sides differ, which parts explain it, and what is left."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

from bench.api import NodeTime
from bench.features.blame.blaming import Line, Outcome
from bench.features.blame.cuts import Aligned, Node, Part
from bench.measure.stats import Estimate
from bench.report import writing

_MOST_OPERATORS = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Culprit:
    """A part that explains a share of the difference.

    Attributes:
        name: name of its node that takes most of the time, with its operator.
        nodes: names of the suspect's nodes under the first side, and under the second.
        operators: number of these nodes by operator, likewise.
        line: what was measured of it.
        alike: number of further parts with the same operators in both graphs.
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
    def is_slower(self) -> bool:
        return self.outcome.ratio.value > 1


def culprits(aligned: Aligned, outcome: Outcome, profiles: Sequence[Sequence[NodeTime] | None]) -> tuple[Culprit, ...]:
    """The blamed parts with the names of their nodes."""
    kinds = collections.Counter(_kind(aligned, Part(start=at, end=at + 1)) for at in range(len(aligned.atoms)))
    chosen = []
    for line in outcome.blamed:
        sides, is_atom = aligned.nodes(line.core), line.core.num_atoms == 1
        chosen.append(
            Culprit(
                name=_name(sides, profiles),
                nodes=tuple(tuple(node.name for node in side) for side in sides),  # type: ignore[arg-type]
                operators=tuple(_operators(side) for side in sides),  # type: ignore[arg-type]
                line=line,
                alike=kinds[_kind(aligned, line.core)] - 1 if is_atom else 0,
            )
        )
    return tuple(chosen)


def _kind(aligned: Aligned, part: Part) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(sorted(node.operator for node in side)) for side in aligned.nodes(part))


def _operators(nodes: Sequence[Node]) -> dict[str, int]:
    return dict(collections.Counter(node.operator for node in nodes).most_common())


def _name(sides: Sequence[Sequence[Node]], profiles: Sequence[Sequence[NodeTime] | None]) -> str:
    """The node that stands for a part: that of the first side which takes most of the time, or else its last."""
    nodes = sides[0] or sides[1]
    times: dict[str, float] = collections.defaultdict(float)
    for kernel in (profiles[0] if sides[0] else profiles[1]) or ():
        for name in kernel.makes or kernel.covers:
            times[name] = max(times[name], kernel.time_ns)
    best = max(nodes, key=lambda node: max((times.get(name, 0.0) for name in node.makes), default=0.0))
    if not any(times.get(name) for name in best.makes):
        best = nodes[-1]
    return f"{best.name} ({best.operator})" if best.operator not in best.name else best.name


def render(blame: Blame, *, format: str) -> str:
    """The answer as `table`, `md` or `json`; the text ends in a newline."""
    if format == "json":
        return writing.as_json(dataclasses.asdict(blame))
    outcome = blame.outcome
    head = f"A: {blame.before}\nB: {blame.after}\n\n{headline(blame)}\n"
    notes = "".join(f"{note}\n" for note in blame.notes)
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
    return f"{head}\n{table}\n{notes}" + "".join(f"{text}\n" for text in _remarks(blame))


def headline(blame: Blame) -> str:
    """One sentence: the difference, and what explains most of it."""
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
    return f"{text}; {100 * sign * most.line.difference.value:.1f} % of it is {most.name}{where}"


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
    for each in blame.culprits:
        if each.alike:
            remarks.append(
                f"{each.alike} more parts have the operators of {each.name}; each was measured only as far as it is "
                "named here"
            )
    if blame.outcome.is_cut:
        remarks.append("the budget ended before every part was split that explains more than its share")
    return remarks
