"""Plugins whose packages cannot be installed beside the others: they run in an environment of their own."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.api import loading
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, InputError
from bench.api.names import PluginName
from bench.cli.main import main
from bench.decisions.listing import listed
from bench.measure import lease
from bench.measure.limits import Limits
from bench.measure.process import Child
from bench.measure.session import Worker
from bench.pipeline import environments, installer, prepare, selection, sweeps
from bench.plugins import catalog
from bench.records import folder
from support.other_environments import environment_with

pytestmark = pytest.mark.slow(seconds=0.6)

RUNTIME = """
import numpy as np
from bench.api import Runtime
from bench.plugins.runtimes.null import NullRuntime

class Apart(NullRuntime):
    requires = ("demo",)
    isolated = ("demo==3.0",)

    def open(self, artifact, **how):
        import demo
        session = super().open(artifact, **how)
        answer = session.run
        session.run = lambda feeds: [np.asarray(array) * np.float32(demo.SCALE) for array in answer(feeds)]
        return session
"""
EXPORTER = """
from bench.api import Exporter

class Apart(Exporter):
    requires = ("demo",)
    isolated = ("demo==3.0",)
    sources = ("null",)
    writes = "null"

    def export(self, task, source, target):
        import demo
        target.write_bytes(task.weights_path.read_bytes())
        return {}
"""
MIB = 2**20
HOSTILE = """
    def {method}(self, *positional, **named):
        import demo  # which is in the environment of its own alone
        import socket
        {act}
        raise RuntimeError("nothing held it back")
"""
ACTS = {
    "memory": "bytes(bytearray(2 << 30))",
    "network": "socket.create_connection(('127.0.0.1', {port}), timeout=5).sendall(b'data')",
}
REASONS = {
    "memory": r"out of memory \(limit 0\.5 GiB\)",
    "network": r"OSError: \[Errno \d+\] Network is unreachable|ConnectionRefusedError: ",
}
CELL = "toy/null/native/raw/apart/cpu/b1t1"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """No environment is known that another test made."""
    yield
    for known in (environments._MADE, environments._FAILED):
        known.clear()


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs `bench` in this process and gives what it printed."""

    def run(*arguments: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["bench", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        assert (ended.value.code or 0) == code, printed
        return printed.out + printed.err

    return run


@pytest.fixture
def installed(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A runtime and an exporter that run apart; a list of what was installed for them."""
    for kind, text in (("runtimes", RUNTIME), ("exporters", EXPORTER)):
        (plugin_folder / kind).mkdir()
        (plugin_folder / kind / "apart.py").write_text(text)
    made: list[str] = []

    def resolved(wanted: list[str], constraints: list[str], python: str) -> str:
        made.extend(wanted)
        return 'lock-version = "1.0"'

    monkeypatch.setattr(installer, "resolved", resolved)
    monkeypatch.setattr(installer, "make", lambda lock, target, python: environment_with(target, "3.0"))
    return made


def test_a_cell_of_such_a_runtime_is_measured_like_any_other(installed: list[str], command: Callable[..., str]) -> None:
    line = "bench: apart: its own environment is not here yet, and takes minutes to make"
    assert line in command("run", CELL, "--launches", "1").splitlines()
    assert line not in command("run", CELL, "--launches", "1").splitlines()
    (record,) = (each for each in folder.read(Path("results")).records.values() if "apart" in each.cell.path)
    assert record.cell.path == CELL, "the path does not change"
    assert record.header.versions == {"python": ".".join(map(str, sys.version_info[:3])), "demo": "3.0"}
    assert record.quality is not None
    assert record.quality.fidelity == "exact"
    assert len(record.launches) == 2, "it is its own baseline"
    assert installed == ["demo==3.0", "numpy"]


def test_such_an_exporter_writes_a_file_that_runs_here(installed: list[str], command: Callable[..., str]) -> None:
    command("run", "toy/null/apart/raw/null/cpu/b1t1", "--launches", "1")
    cell = Cell.from_path("toy/null/apart/raw/null/cpu/b1t1")
    assert prepare.artifact_of(cell, Limits()).info["versions"]["demo"] == "3.0"
    assert len(folder.read(Path("results")).records[cell.path].launches) == 1


@contextlib.contextmanager
def hostile(act: str, file: Path, method: str) -> Iterator[None]:
    """A plugin in an environment of its own does what a worker may not do; nobody connects to this process."""
    with Child(memory_bytes=512 * MIB) as child:
        protection = child.request(Worker.protection, timeout_s=30)
    if not protection[{"memory": "memory_limited", "network": "no_network"}[act]]:
        pytest.skip(f"this system cannot limit the {act}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = HOSTILE.format(method=method, act=ACTS[act].format(port=server.getsockname()[1]))
        file.write_text(file.read_text() + text)
        catalog.forget()
        yield
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize("act", list(ACTS))
def test_a_runtime_there_keeps_its_limits(
    act: str, installed: list[str], command: Callable[..., str], plugin_folder: Path
) -> None:
    with hostile(act, plugin_folder / "runtimes" / "apart.py", "open"):
        command("run", CELL, "--launches", "1", "--memory", "512MiB", code=1)
    (row,) = [row for row in folder.read(Path("results")).rows if row.cell == CELL]
    assert row.status == "failed"
    assert re.search(REASONS[act], row.reason), row.reason


@pytest.mark.parametrize("act", list(ACTS))
def test_an_exporter_there_keeps_its_limits(act: str, installed: list[str], plugin_folder: Path) -> None:
    cell = Cell.from_path("toy/null/apart/raw/null/cpu/b1t1")
    with (
        hostile(act, plugin_folder / "exporters" / "apart.py", "export"),
        pytest.raises(ArtifactError, match=REASONS[act]),
    ):
        prepare.artifact_of(cell, Limits(memory_bytes=512 * MIB))


def test_launches_there_are_confined_as_those_here(installed: list[str], command: Callable[..., str]) -> None:
    command("run", CELL, "toy/null/native/raw/null/cpu/b1t1", "--launches", "1")
    confined = {
        name: [launch.confined for launch in record.launches]
        for name, record in folder.read(Path("results")).records.items()
    }
    own = confined["toy/null/native/raw/null/cpu/b1t1"][0]
    assert own["memory_limited"] in (True, False)
    assert confined[CELL], "it was timed"
    assert all(each == own for each in confined[CELL])


def test_a_sweep_has_such_plugins_once_their_environment_is_made(
    installed: list[str], command: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "_tasks", lambda: ["toy"])
    assert CELL not in [cell.path for cell in selection.select([], "full")]
    assert installed == [], "nothing is installed to list a sweep"
    states = {each.name: each.environment for each in listed()["runtimes"]}
    assert states["apart"] == "an environment of its own, which `bench install apart --yes` makes"
    assert states["null"] == ""
    assert command("install").count("apart: ") == 2, "an exporter and a runtime"
    assert CELL in [cell.path for cell in selection.select([], "full")]
    (state,) = (each.environment for each in listed()["runtimes"] if each.name == "apart")
    assert state.startswith("an environment of its own, ")
    assert state.endswith(" MB")


def test_sweeps_and_globs_have_no_plugin_whose_environment_is_not_made(
    installed: list[str], command: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "_tasks", lambda: ["toy"])
    monkeypatch.setattr(sweeps, "QUICK_TASK", "toy")
    for sweep in ("quick", "full", "scaling", "threads", "everything"):
        notes: list[str] = []
        cells = selection.select([], sweep, say=notes.append)
        assert not [cell.path for cell in cells if "apart" in cell.path], sweep
        assert [note for note in notes if "apart: `bench install apart --yes` makes its environment" in note], sweep
    notes = []
    cells = selection.select(["toy/*", "*/cpu/b1t1"], None, say=notes.append)
    assert not [cell.path for cell in cells if "apart" in cell.path]
    assert len(notes) == 1, "for two globs"
    assert selection.select(["toy/null/native/raw/null/*"], None, say=notes.append)
    assert len(notes) == 1, "nothing of it matches"
    assert {cell.runtime.plugin for cell in selection.select(["toy/null/native/raw/apart/*"], None)} == {"apart"}
    with pytest.raises(InputError, match=r"need what is not here \(apart: `bench install apart --yes` makes its env"):
        selection.select(["*/raw/apar?/*"], None)
    listing = command("run", "--dry-run", "--sweep", "full")
    assert "Left out: apart: `bench install apart --yes` makes its environment" in listing
    assert installed == []
    command("install")
    assert [cell.path for cell in selection.select(["toy/*"], None) if "apart" in cell.path]


def test_yes_makes_what_the_cells_need_before_the_sweep(
    installed: list[str], command: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    monkeypatch.setattr(installer, "check_size", lambda _, may_be_large, allowed_by: sizes.append(may_be_large))
    command("run", CELL, "--launches", "1", "--yes")
    assert sizes == [True]


def test_nothing_is_installed_while_something_is_measured(installed: list[str], command: Callable[..., str]) -> None:
    with lease.hold():
        assert "another `bench` prepares or measures on this machine" in command("install", code=2)
    assert installed == []


def test_an_unknown_plugin_is_not_installed(installed: list[str], command: Callable[..., str]) -> None:
    said = command("install", "appart", code=2)
    assert "'appart' is no plugin that needs an environment of its own; did you mean 'apart'?" in said


def test_an_environment_that_cannot_be_made_is_an_error_of_the_cell(
    installed: list[str], command: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(lock: str, *, may_be_large: bool, allowed_by: str) -> None:
        if not may_be_large:
            raise ArtifactError(f"it takes a download of 2.1 GB, 1.0 GB of it demo; {allowed_by} allows that")

    monkeypatch.setattr(installer, "check_size", refuse)
    said = command("run", CELL, "--launches", "1", code=1)
    assert "apart: it takes a download of 2.1 GB, 1.0 GB of it demo; `bench install apart --yes` allows that" in said
    (state,) = (each.environment for each in listed()["runtimes"] if each.name == "apart")
    assert state.startswith("an environment of its own, which could not be made: it takes a download of 2.1 GB, ")
    environments._FAILED.clear()
    command("install", "apart", "--yes")
    command("run", CELL, "--launches", "1")


def test_where_its_packages_are_here_it_runs_here(installed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = catalog.runtime("apart")
    assert environments.names_of(Cell.from_path(CELL)) == [("runtimes", Cell.from_path(CELL).runtime)]
    monkeypatch.setattr(type(runtime), "requires", ("numpy",))
    assert environments.names_of(Cell.from_path(CELL)) == []


ISOLATED = [name for name in loading.find("exporters") if catalog.exporter(name).isolated]


@pytest.mark.thorough
@pytest.mark.framework
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ISOLATED)
def test_a_file_that_is_made_elsewhere_is_right_here(name: str, tmp_path: Path) -> None:
    """The packages that it states are installed from the index, gigabytes of them, and it exports a real model."""
    exporter = catalog.exporter(name)
    task, source = "super_resolution@height=64,width=64", exporter.sources[0]
    written = exporter.format(source)
    opener = next(each for each in loading.find("runtimes") if written in catalog.runtime(each).default_for)
    cell = f"{task}/{source}/{name}/raw/{opener}/cpu/b1t1"
    bench = [sys.executable, "-c", "from bench.cli import main; main.main()"]
    for command in (["install", name, "--yes"], ["run", cell, "--launches", "1", "--results", str(tmp_path)]):
        done = subprocess.run([*bench, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    (row,) = [row for row in folder.read(tmp_path).rows if row.cell == cell]
    assert (row.status, row.fidelity) == ("ok", "close")
    assert row.latency_p50_ns


@pytest.mark.parametrize("name", [variant.name for variant in catalog.mixing()])
def test_a_mixing_variant_is_placed_ahead_of_its_option(name: str) -> None:
    """A search asks for the parts of a model before there are letters, and no option of these is listed."""
    assert not environments.is_elsewhere("variants", PluginName.parse(name))


VARIANT = """
from bench.api import Variant

class Named(Variant):
    formats = ("null",)
    options = ("4", "50")
    {attributes}

    def apply(self, source, target, *, option, task):
        target.write_bytes(source.read_bytes())
        return {{}}
"""


@pytest.fixture
def variant(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes a variant with two options."""
    monkeypatch.setattr(sweeps, "_tasks", lambda: ["toy"])

    def write(name: str, attributes: str = "") -> None:
        (plugin_folder / "variants").mkdir(exist_ok=True)
        (plugin_folder / "variants" / f"{name}.py").write_text(VARIANT.format(attributes=attributes))
        catalog.forget()

    return write


def test_the_name_of_a_variants_file_may_have_a_hyphen(
    variant: Callable[..., None], command: Callable[..., str]
) -> None:
    variant("my-prune")
    cell = "toy/null/native/my-prune-50/null/cpu/b1t1"
    command("run", cell, "--launches", "1")
    (record,) = (each for each in folder.read(Path("results")).records.values() if each.cell.path == cell)
    assert record.quality is not None
    assert record.quality.fidelity == "exact"


def test_an_absent_variant_is_left_out_unless_a_glob_has_its_option(
    installed: list[str], variant: Callable[..., None], command: Callable[..., str]
) -> None:
    variant("my-own", 'requires, isolated = ("demo",), ("demo==3.0",)')
    notes: list[str] = []
    assert not [cell for cell in selection.select(["toy/*"], None, say=notes.append) if "my-own" in cell.path]
    assert "my-own: `bench install my-own --yes` makes its environment" in notes[0]
    assert {cell.variant for cell in selection.select(["*/my-own-4/null/*"], None)} == {"my-own-4"}
    command("run", "toy/null/native/my-own-4/null/cpu/b1t1", "--launches", "1", "--yes")
    assert installed == ["demo==3.0", "numpy"]


@pytest.mark.parametrize("method", ["skip", "runs_apart"])
def test_a_plugin_whose_state_cannot_be_asked_stops_no_other(
    plugin_folder: Path, command: Callable[..., str], method: str
) -> None:
    (plugin_folder / "runtimes").mkdir(exist_ok=True)
    lines = ["from bench.api.program import ProgramRuntime", "class Broken(ProgramRuntime):", '    formats = ("null",)']
    lines += [
        "    def command(self, *_, **__):",
        '        return ["true"]',
        f"    def {method}(self):",
        "        raise ValueError(1)",
    ]
    (plugin_folder / "runtimes" / "broken.py").write_text("\n".join(lines))
    command("run", "toy/null/native/raw/null/*", "--launches", "1")


def test_another_environment_may_run_what_is_not_here(installed: list[str], command: Callable[..., str]) -> None:
    """Its cells are chosen by a glob without its name, and the environment is that of `--with`."""
    cells = command("run", "toy/*/cpu/b1t1", "--with", "demo==2.0", "--dry-run").splitlines()
    assert "toy/null/native/raw/apart@2.0/cpu/b1t1" in cells
    assert "toy/null/apart@2.0/raw/null/cpu/b1t1" in cells
    assert not [cell for cell in cells if "/apart/" in cell]
    assert installed == []


def test_what_a_plugin_names_without_a_version_has_the_version_that_is_here(
    installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    constraints: list[str] = []
    resolved = installer.resolved

    def noted(wanted: list[str], beside: list[str], python: str) -> str:
        constraints.extend(beside)
        return resolved(wanted, beside, python)

    monkeypatch.setattr(installer, "resolved", noted)
    runtime = catalog.runtime("apart")
    monkeypatch.setattr(type(runtime), "isolated", ("demo==3.0", "msgspec"))
    environments.make_isolated(runtime)
    assert installed == ["demo==3.0", "msgspec", "numpy"]
    assert [text for text in constraints if text.startswith("msgspec==")]


def test_environments_of_a_sweep_under_way_are_not_removed(command: Callable[..., str]) -> None:
    with lease.hold():
        assert "another `bench` prepares or measures" in command("clean", "--environments", code=2)
        command("clean", "--environments", "--dry-run")
