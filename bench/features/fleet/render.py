"""The table of the machines of a fleet."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bench.features.fleet.cluster import Refused
from bench.features.fleet.place import Machine
from bench.report import writing

HEAD = ("machine", "kind", "cores", "memory (GiB)", "runtimes", "now")


def render(machines: Sequence[Machine], refused: Sequence[Refused], leased: Collection[str]) -> str:
    """The machines that take part, and below them those that do not, with the reasons, for a terminal.

    Args:
        machines: the machines that take part.
        refused: the others.
        leased: the nodes that work now.
    """
    lines = [
        (
            machine.name,
            machine.facts.kind,
            str(machine.facts.machine["num_cores"]),
            f"{machine.facts.memory_bytes / 2**30:.0f}",
            str(len({name.partition("/")[0] for name in machine.facts.runtimes})),
            "measures" if machine.node in leased else "is free",
        )
        for machine in sorted(machines, key=lambda machine: (machine.facts.kind, machine.name))
    ]
    table = writing.plain(HEAD, lines, format="table", num_names=2) if lines else "no machine takes part\n"
    return table + "".join(f"{machine.name} takes no part: {machine.reason}\n" for machine in refused)
