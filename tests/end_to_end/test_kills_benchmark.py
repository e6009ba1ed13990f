"""`benchmarks/kills.py`: one signal of each kind at each command, and every wrong end is counted."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from bench.api.loading import load_module

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kills.py"
HEED = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
"""The background job of a shell, in which these tests may run, ignores SIGINT, and so do its children."""
SLEEP = "import time\nprint('begun', flush=True)\ntime.sleep(60)"
STUBS = {
    "late ends": "import signal, time\nsignal.signal(signal.SIGINT, lambda *_: time.sleep(0.6) or exit())\n" + SLEEP,
    "orphans": "import subprocess\nsubprocess.Popen(['sleep', '60'], start_new_session=True)\n" + SLEEP,
    "lost launches": "open('results/m/key.jsonl', 'w').close()\n" + SLEEP,
    "unparsable lines": "open('results/m/key.jsonl', 'a').write('{no JSON}\\n{cut')\n" + SLEEP,
    "tracebacks": "raise ValueError",
    "wrong ends": "import signal, sys, time\nsignal.signal(signal.SIGINT, lambda *_: sys.exit(130))\n" + SLEEP,
}


@pytest.fixture
def kills() -> ModuleType:
    return load_module(SCRIPT)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.thorough
@pytest.mark.slow(seconds=30)
def test_each_command_loses_nothing(kills: ModuleType, tmp_path: Path) -> None:
    place = kills.Place(tmp_path)
    commands = kills.prepare(place, 100)
    assert len(place.launches()[0]) >= 100
    num_running = 0  # a command may have ended before its signal
    for number, name in zip((signal.SIGKILL, signal.SIGINT, signal.SIGTERM), commands, strict=True):
        wrong = kills.stop(place, commands[name], number, 1.5)
        num_running += wrong.pop("running", 0)
        assert 0 < wrong.pop("start_ms") < 60_000
        assert not +wrong
    assert num_running
    before = place.launches()[0]
    place.run("show", "toy/*")
    assert place.launches()[0] == before


@pytest.mark.timing
@pytest.mark.parametrize("wrong", STUBS)
def test_every_wrong_end_is_counted(
    wrong: str, kills: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kills, "BENCH", (sys.executable, "-c", HEED + STUBS[wrong]))
    monkeypatch.setattr(kills, "LATEST_S", 0.5)
    monkeypatch.setattr(kills, "ORPHAN_S", 0.5)
    monkeypatch.setattr(kills, "START_S", 0.5)  # no stub heeds SIGTERM
    place = kills.Place(tmp_path)
    stored = tmp_path / "results" / "m" / "key.jsonl"
    stored.parent.mkdir(parents=True)
    stored.write_text('{"kind":"cell"}\n{"kind":"launch","launch":"1"}\n')
    found = kills.stop(place, kills.Command(arguments=(), latest_s=1), signal.SIGINT, 1.0)
    assert found[wrong] >= 1
    assert wrong == "orphans" or found["orphans"] == 0
    end_s = time.monotonic() + 10
    while place.processes() and time.monotonic() < end_s:  # they were killed a moment ago
        time.sleep(0.01)
    assert place.processes() == []
    assert "ended with" in capfd.readouterr().out


def test_launches_are_multiplied_in_blocks_of_their_own(kills: ModuleType, tmp_path: Path) -> None:
    place = kills.Place(tmp_path)
    stored = tmp_path / "results" / "m" / "key.jsonl"
    stored.parent.mkdir(parents=True)
    stored.write_text('{"kind":"cell"}\n{"kind":"launch","launch":"1","block":"b"}\n')
    kills.multiply(place, 10)
    assert len(place.launches()[0]) == 11
    assert len(stored.read_text().splitlines()) == 12
