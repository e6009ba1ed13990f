"""The machine: a name that is the same each time and tells machines apart, and a state that can be stored."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from bench.measure import machine

CPUINFO = """processor\t: 0
cpu family\t: 6
model\t\t: 85
model name\t: Fancy(R) Chip(TM) Gold 6130 CPU @ 2.10GHz
stepping\t: 4
flags\t\t: fpu avx2

processor\t: 1
model name\t: another
"""

PUBLISHED = Path(__file__).parents[3] / "results"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    machine.describe.cache_clear()
    machine.name.cache_clear()
    yield
    machine.describe.cache_clear()
    machine.name.cache_clear()


@pytest.fixture
def cpuinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cpuinfo"
    path.write_text(CPUINFO)
    monkeypatch.setattr(machine, "CPUINFO", path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 5}, raising=False)
    memory = SimpleNamespace(total=24_000_000_000, available=1)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    return path


def name_now() -> str:
    machine.describe.cache_clear()
    machine.name.cache_clear()
    return machine.name()


def test_what_tells_machines_apart(cpuinfo: Path) -> None:
    found = machine.describe()
    assert found["processor"] == "Fancy(R) Chip(TM) Gold 6130 CPU @ 2.10GHz"
    assert found["family"] == ["6", "85", "4"]
    assert (found["num_cores"], found["memory_gib"]) == (2, 22)
    json.dumps(found)


def test_name_is_a_folder_and_stays_the_same(cpuinfo: Path) -> None:
    assert re.fullmatch(r"fancy-chip-gold-6130-cpu-2-10ghz-2c-22g-[0-9a-f]{8}", machine.name())
    assert name_now() == machine.name()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("avx2", "avx2 amx"),
        ("Gold", "Silver"),
        ("stepping\t: 4", "stepping\t: 5"),
        ("model\t\t: 85", "model\t\t: 106"),
    ],
)
def test_another_processor_has_another_name(cpuinfo: Path, old: str, new: str) -> None:
    before = name_now()
    cpuinfo.write_text(CPUINFO.replace(old, new))
    assert name_now() != before


def test_cores_of_arm_are_told_apart_by_implementer_and_part(cpuinfo: Path) -> None:
    assert "arm" not in machine.describe(), "so that folders of other processors keep their names"
    text = "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"
    cpuinfo.write_text(text)
    before = name_now()
    assert machine.describe()["arm"] == ["0x41", "0xd0c"]
    assert machine.describe()["family"] == ["", "", ""]
    cpuinfo.write_text(text.replace("d0c", "d4f"))
    assert name_now() != before


@pytest.mark.parametrize("folder", sorted(PUBLISHED.glob("*/*-*c-*g-*")), ids=lambda path: f"{path.parent.name}")
def test_folders_of_published_results_have_the_names_of_their_machines(folder: Path) -> None:
    with next(folder.glob("*.jsonl")).open() as file:
        assert machine.name_of(json.loads(file.readline())["machine"]) == folder.name


def test_fewer_cores_are_another_machine(cpuinfo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = name_now()
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    assert name_now() != before
    assert machine.num_cores() == 1


def test_without_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "none")
    assert machine.describe()["processor"]
    assert re.fullmatch(r"[a-z0-9-]+", machine.name())


def test_state_is_json_whatever_this_machine_tells() -> None:
    found = dataclasses.asdict(machine.state())
    assert set(found) == {"load_1m", "available_bytes", "clock_mhz", "governor", "temperature_c"}
    assert found["available_bytes"] > 0
    json.dumps(found, allow_nan=False)


def test_state_of_a_machine_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_freq", lambda: None)
    monkeypatch.delattr(psutil, "sensors_temperatures", raising=False)
    monkeypatch.delattr(os, "getloadavg")
    found = machine.state()
    assert (found.clock_mhz, found.temperature_c, found.load_1m) == (None, None, None)


def test_hottest_sensor(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = {"a": [SimpleNamespace(current=40.0), SimpleNamespace(current=71.5)], "b": [SimpleNamespace(current=50.0)]}
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: groups, raising=False)
    assert machine.state().temperature_c == 71.5


def test_graphics_processors_and_their_driver_tell_machines_apart(
    cpuinfo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "NVIDIA", tmp_path / "nvidia")
    without = name_now()
    assert "gpus" not in machine.describe()
    card = tmp_path / "nvidia" / "gpus" / "0000:01:00.0"
    card.mkdir(parents=True)
    (card / "information").write_text("Model: \t\t Fancy 3000\nIRQ: 7\n")
    (tmp_path / "nvidia" / "version").write_text("NVRM version: 570.1\nGCC version: 13\n")
    names = {without, name_now()}
    assert machine.describe()["gpus"] == ["Fancy 3000"]
    (tmp_path / "nvidia" / "version").write_text("NVRM version: 580.2\n")
    assert len(names | {name_now()}) == 3
