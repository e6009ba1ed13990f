"""Whether other programs held the cores while a task was measured, by what the launches tell of the machine."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from bench.measure.launch import Launch
from bench.measure.machine import LOADED

LOST = 0.1
"""Share of its time above which a worker was kept waiting: for a core, or by a hypervisor that ran other machines."""
MANY = 0.25
"""Share of the launches above which a busy machine is told of."""


def note(launches: Collection[Launch], machine: Mapping[str, Any]) -> str | None:
    """Why figures of a task are less sure than on an idle machine; None where the machine was quiet, or nothing tells.

    Args:
        launches: the launches of all cells of the task.
        machine: properties of the machine, see `bench.measure.machine.describe`. A load says nothing where the number
            of cores is missing, or is none, as in damaged results.
    """
    cores = machine.get("num_cores")
    most = LOADED * cores if isinstance(cores, int) and cores > 0 else math.inf
    loads = {launch.launch: launch.machine.load_1m or 0.0 for launch in launches if launch.machine is not None}
    lost = {launch.launch: launch.lost_share for launch in launches}
    busy = {name for name in lost if lost[name] > LOST or loads.get(name, 0.0) > most}
    if len(busy) <= MANY * len(launches):
        return None
    load = f"a load of up to {max(loads.values(), default=0.0):.3g} on {cores} core{'' if cores == 1 else 's'}, and "
    return (
        f"the machine was busy in {len(busy)} of {len(launches)} launches: {load if math.isfinite(most) else ''}"
        f"workers waited up to {100 * max(lost.values()):.2g} % of their time: end what else runs; the same "
        "command with --force measures again"
    )
