"""Energy that the machine's processors use, from the counters of its kernel.

Source: https://www.kernel.org/doc/html/latest/power/powercap/powercap.html
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
UNITS_IN_JOULE = 1_000_000
"""Microjoules, in which the counters count."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Zone:
    """A counter: one processor package with its memory controller, or the memory beside it.

    Attributes:
        path: its folder.
        range_uj: the value after which it begins at 0 again, in microjoules.
    """

    path: Path
    range_uj: int

    def energy_uj(self) -> int:
        """What it shows now, in microjoules.

        Raises:
            OSError: the user may not read it, or it is gone.
            ValueError: it shows no number.
        """
        return int((self.path / "energy_uj").read_text())


def zones(root: Path = POWERCAP) -> tuple[Zone, ...]:
    """The counters that this user may read and that count different energy: packages, and memory beside them.

    The counters of cores and of graphics are within those of their package, and that of the whole platform is about the
    same energy again; so these are left out.
    """
    found = []
    for path in sorted(root.glob("intel-rapl:*")):  # AMD's processors have counters of the same name
        try:
            name = (path / "name").read_text().strip()
            if not name.startswith("package") and name != "dram":
                continue
            zone = Zone(path=path, range_uj=int((path / "max_energy_range_uj").read_text()))
            zone.energy_uj()
        except (OSError, ValueError):
            continue
        found.append(zone)
    return tuple(found)


class Meter:
    """Energy since it was made.

    A counter that begins anew counts once more; so ask at least once in each of its ranges, which at full load take
    minutes to hours.

    Args:
        counters: what to read; `zones()` unless given.
    """

    def __init__(self, counters: tuple[Zone, ...] | None = None) -> None:
        self._zones = zones() if counters is None else counters
        self._last: dict[Zone, int] = {}
        self._joules = 0.0
        self.joules()

    def joules(self) -> float | None:
        """Energy of all counters since the meter was made; None where the machine has none that may be read."""
        try:
            now: Mapping[Zone, int] = {zone: zone.energy_uj() for zone in self._zones}
        except (OSError, ValueError):
            self._zones = ()
            return None
        for zone, value in now.items():
            last = self._last.get(zone, value)
            passed = value - last if value >= last else value + zone.range_uj - last
            self._joules += passed / UNITS_IN_JOULE
        self._last = dict(now)
        return self._joules if self._zones else None
