"""Energy that the machine's processors use, from the counters of its kernel and of NVIDIA's driver.

Source: https://www.kernel.org/doc/html/latest/power/powercap/powercap.html, and nvmlDeviceGetTotalEnergyConsumption of
https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

_POWERCAP = Path("/sys/class/powercap")
LOOK_S = 30.0
"""Time between two looks at the counters: at 2 kW, a counter of 65.5 kJ begins anew in 33 s."""
_UNITS_IN_JOULE = 1_000_000
"""Microjoules, in which the counters count."""


class Counter(Protocol):
    """Counts energy.

    Attributes:
        name: what it counts the energy of, such as `package-0`.
        range_uj: the value after which it begins at 0 again, in microjoules; None for a counter that has none.
    """

    @property
    def name(self) -> str: ...

    @property
    def range_uj(self) -> int | None: ...

    def energy_uj(self) -> int:
        """What it shows now, in microjoules.

        Raises:
            OSError: the user may not read it, or it is gone.
            ValueError: it shows no number.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class Zone:
    """A counter of the kernel: one processor package with its memory controller, or the memory beside it.

    Attributes:
        name: as of `Counter`.
        range_uj: as of `Counter`.
        path: its folder.
    """

    name: str
    range_uj: int
    path: Path

    def energy_uj(self) -> int:
        """As of `Counter`."""
        return int((self.path / "energy_uj").read_text())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gpu:
    """The counter of a GPU, which the driver sets to 0 when it is loaded.

    Attributes:
        name: as of `Counter`.
        range_uj: as of `Counter`.
        nvml: the module `pynvml`.
        handle: the GPU's handle there.
    """

    name: str
    nvml: Any = dataclasses.field(compare=False)
    handle: Any = dataclasses.field(compare=False)  # of a type that has no hash
    range_uj: None = None

    def energy_uj(self) -> int:
        """As of `Counter`."""
        try:
            return 1000 * int(self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle))
        except self.nvml.NVMLError as error:
            raise OSError(str(error)) from error


def counters(root: Path = _POWERCAP) -> tuple[Counter, ...]:
    """All counters of the machine that this user may read and that count different energy."""
    return (*zones(root), *gpus())


def zones(root: Path = _POWERCAP) -> tuple[Zone, ...]:
    """The kernel's counters of packages, and of memory beside them.

    The counters of cores and of graphics are within those of their package, and that of the whole platform is about the
    same energy again; so these are left out.
    """
    rapl_zones = []
    for path in sorted(root.glob("intel-rapl:*")):  # AMD's processors have counters of the same name
        try:
            name = (path / "name").read_text().strip()
            if not name.startswith("package") and name != "dram":
                continue
            zone = Zone(name=name, path=path, range_uj=int((path / "max_energy_range_uj").read_text()))
            zone.energy_uj()
        except (OSError, ValueError):
            continue
        rapl_zones.append(zone)
    return tuple(rapl_zones)


def gpus() -> tuple[Gpu, ...]:
    """The counters of NVIDIA's GPUs; none without the package `nvidia-ml-py`, the driver, or a GPU that counts."""
    try:
        pynvml = importlib.import_module("pynvml")
    except ImportError:
        return ()
    nvidia_gpus = []
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:  # no driver
        return ()
    for index, handle in enumerate(handles):
        gpu = Gpu(name=f"gpu-{index}", nvml=pynvml, handle=handle)
        try:
            gpu.energy_uj()
        except OSError:  # GPUs before Volta do not count
            continue
        nvidia_gpus.append(gpu)
    return tuple(nvidia_gpus)


@dataclasses.dataclass(kw_only=True)
class Used:
    """Energy that was used meanwhile; None where the machine does not count it."""

    joules: float | None = None


class Meter:
    """Energy since it was made.

    A counter that begins anew counts once more; so ask at least once in each of its ranges, which at full load take
    minutes to hours.

    Args:
        sources: what to read; `counters()` unless given.
    """

    def __init__(self, sources: tuple[Counter, ...] | None = None) -> None:
        self._counters = counters() if sources is None else sources
        self._last: dict[Counter, int] = {}
        self._joules = 0.0
        self.joules()

    @property
    def names(self) -> tuple[str, ...]:
        """What it counts the energy of; empty where `joules` is None."""
        return tuple(counter.name for counter in self._counters)

    @contextlib.contextmanager
    def counting(self) -> Iterator[Used]:
        """Count while the statements in the `with` block run, and often enough that no counter begins anew twice.

        Gives what is known when they have ended.
        """
        used, ended, before = Used(), threading.Event(), self.joules()

        def look() -> None:
            while not ended.wait(LOOK_S):
                self.joules()

        thread = threading.Thread(target=look, daemon=True)
        if before is not None:
            thread.start()
        try:
            yield used
        finally:
            ended.set()
            if before is not None:
                thread.join()
                after = self.joules()
                used.joules = None if after is None else after - before

    def joules(self) -> float | None:
        """Energy of all counters since the meter was made; None where the machine has none that may be read."""
        try:
            now: Mapping[Counter, int] = {counter: counter.energy_uj() for counter in self._counters}
            passed = [_passed_uj(counter, self._last.get(counter, value), value) for counter, value in now.items()]
        except (OSError, ValueError):
            self._counters = ()
            return None
        self._joules += sum(passed) / _UNITS_IN_JOULE
        self._last = dict(now)
        return self._joules if self._counters else None


def _passed_uj(counter: Counter, last: int, now: int) -> int:
    if now >= last:
        return now - last
    if counter.range_uj is None:
        raise ValueError(f"{counter.name} began anew")
    return now + counter.range_uj - last
