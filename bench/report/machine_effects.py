"""What the machines of one kind that shared a sweep do to its runtimes, as a table."""

from __future__ import annotations

from collections.abc import Mapping

from bench.measure.stats import Effect
from bench.report import writing

TITLE = "What each machine does to a runtime beside the others of its kind, % of the latency [95 %]"
NOTE = "An interval is about ±10 % wide until launches of the runtime on several machines tell."


def table(places: Mapping[tuple[str, str], Effect]) -> tuple[list[str], list[list[str]]]:
    """Titles and lines: one line for each runtime, with a column for each machine.

    Args:
        places: by runtime and machine, the logarithm of the factor; see `bench.measure.joint.Joint.of_places`.
    """
    machines = sorted({machine for _, machine in places})
    runtimes = sorted({runtime for runtime, _ in places})
    lines = [
        [runtime, *(_text(places[runtime, machine]) if (runtime, machine) in places else "" for machine in machines)]
        for runtime in runtimes
    ]
    return ["runtime", *machines], lines


def render(places: Mapping[tuple[str, str], Effect]) -> str:
    """The table for a terminal, below its title; nothing for one machine alone."""
    if not places:
        return ""
    titles, lines = table(places)
    return f"{TITLE}:\n\n{writing.plain(titles, lines, format='table')}\n{NOTE}\n"


def _text(effect: Effect) -> str:
    ratio = effect.ratio()
    # The sum takes the sign from a rounded zero.
    value, low, high = (f"{round(100 * (share - 1), 1) + 0.0:+.1f}" for share in (ratio.value, ratio.low, ratio.high))
    return f"{value} [{low}, {high}]"
