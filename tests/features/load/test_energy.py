"""Energy counters, as the kernel shows them in a folder."""

from __future__ import annotations

import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

from bench.features.load import energy


def zone(root: Path, folder: str, name: str, energy_uj: int, range_uj: int = 1_000_000) -> Path:
    path = root / folder
    path.mkdir()
    (path / "name").write_text(f"{name}\n")
    (path / "energy_uj").write_text(f"{energy_uj}\n")
    (path / "max_energy_range_uj").write_text(f"{range_uj}\n")
    return path


def test_packages_and_memory_count_and_what_is_within_them_does_not(tmp_path: Path) -> None:
    package = zone(tmp_path, "intel-rapl:0", "package-0", 5)
    memory = zone(tmp_path, "intel-rapl:0:1", "dram", 5)
    zone(tmp_path, "intel-rapl:0:0", "core", 5)
    zone(tmp_path, "intel-rapl:1", "psys", 5)
    zone(tmp_path, "other:0", "package-0", 5)
    assert [found.path for found in energy.zones(tmp_path)] == [package, memory]


def test_energy_is_summed_over_counters_and_over_their_ends(tmp_path: Path) -> None:
    first = zone(tmp_path, "intel-rapl:0", "package-0", 900_000)
    second = zone(tmp_path, "intel-rapl:1", "package-1", 0, range_uj=5_000_000)
    meter = energy.Meter(energy.zones(tmp_path))
    assert meter.names == ("package-0", "package-1")
    assert meter.joules() == 0
    (first / "energy_uj").write_text("100000")  # it went on to 1,000,000 and began again at 0
    (second / "energy_uj").write_text("2000000")
    assert meter.joules() == pytest.approx(0.2 + 2.0)
    (first / "energy_uj").write_text("50000")
    assert meter.joules() == pytest.approx(0.2 + 2.0 + 0.95)


def test_no_counter_is_no_energy(tmp_path: Path) -> None:
    assert energy.zones(tmp_path) == ()
    assert energy.zones(tmp_path / "none") == ()
    assert energy.Meter(()).joules() is None
    broken = zone(tmp_path, "intel-rapl:0", "package-0", 5)
    (broken / "energy_uj").write_text("what")
    assert energy.zones(tmp_path) == ()


def test_a_counter_that_goes_away_ends_the_counting(tmp_path: Path) -> None:
    path = zone(tmp_path, "intel-rapl:0", "package-0", 5)
    meter = energy.Meter(energy.zones(tmp_path))
    (path / "energy_uj").unlink()
    assert meter.joules() is None
    assert meter.names == ()
    (path / "energy_uj").write_text("7")
    assert meter.joules() is None


class Driver(types.ModuleType):
    """NVIDIA's library with two GPUs, of which the second does not count."""

    class NVMLError(Exception):
        """What the library raises."""

    def __init__(self, energy_mj: int | None) -> None:
        super().__init__("pynvml")
        self.__spec__ = types.SimpleNamespace(name="pynvml")  # type: ignore[assignment]
        self.energy_mj = energy_mj

    def nvmlInit(self) -> None:  # noqa: N802
        if self.energy_mj is None:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> list[int]:  # noqa: N802
        return [index]  # without a hash, as a pointer

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: list[int]) -> Any:  # noqa: N802
        if handle == [1]:
            raise self.NVMLError("Not Supported")
        return self.energy_mj


def test_gpus_that_count_are_counted_in_millijoules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(5_000)
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    package = zone(tmp_path, "intel-rapl:0", "package-0", 0)
    meter = energy.Meter(energy.counters(tmp_path))
    assert meter.names == ("package-0", "gpu-0")
    driver.energy_mj = 7_500
    (package / "energy_uj").write_text("250000")
    assert meter.joules() == pytest.approx(2.5 + 0.25)


def test_a_driver_that_was_loaded_anew_ends_the_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(5_000)
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    meter = energy.Meter(energy.gpus())
    driver.energy_mj = 4_000
    assert meter.joules() is None


def test_without_a_driver_or_its_package_no_gpu_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Driver(None))
    assert energy.gpus() == ()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert energy.gpus() == ()


def test_a_counter_is_looked_at_while_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins anew with every second look, so that its two ends tell little."""
    looks: list[int] = []

    class Wrapping:
        name, range_uj = "package-0", 1_000_000

        def energy_uj(self) -> int:
            looks.append(0)
            return 600_000 * len(looks) % 1_000_000

    monkeypatch.setattr(energy, "LOOK_S", 0.01)
    meter = energy.Meter((Wrapping(),))
    with meter.counting() as used:
        first = len(looks)
        time.sleep(0.2)
    assert len(looks) - first > 3
    assert used.joules == pytest.approx(0.6 * (len(looks) - first))
    with energy.Meter(()).counting() as used:
        pass
    assert used.joules is None
