"""Energy counters, as the kernel shows them in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.measure import energy


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
    (path / "energy_uj").write_text("7")
    assert meter.joules() is None
