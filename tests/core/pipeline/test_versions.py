"""Cells of other environments: what the options ask for, which cells they concern, and how environments are made."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.api.cell import Cell
from bench.api.errors import ArtifactError, InputError
from bench.api.names import PluginName
from bench.cli.main import main
from bench.decisions import check
from bench.measure.limits import Limits
from bench.pipeline import environment_request, environments, installer, prepare, provenance, selection, versions
from bench.pipeline.installed_packages import Installed
from bench.plugins import catalog
from bench.records import folder
from support.features import needs
from support.other_environments import environment_with

pytestmark = pytest.mark.slow(seconds=0.6)

RUNTIME = """
import numpy as np
from bench.api import Runtime
from bench.plugins.runtimes.null import NullRuntime

class Demo(NullRuntime):
    requires = ("demo",)

    def open(self, artifact, **how):
        import demo
        session = super().open(artifact, **how)
        answer = session.run
        session.run = lambda feeds: [np.asarray(array) * np.float32(demo.SCALE) for array in answer(feeds)]
        return session
"""
CELL = "toy/null/native/raw/demo/cpu/b1t1"
LOCK = 'lock-version = "1.0"'


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """No environment is known that another test made."""
    yield
    for known in (environments._MADE, environments._FAILED):
        known.clear()


@pytest.mark.parametrize(
    ("text", "requirements", "label"),
    [
        ("onnxruntime==1.22.0", ["onnxruntime==1.22.0"], "1.22.0"),
        ("ONNX_Runtime==1.22.0", ["ONNX_Runtime==1.22.0"], "1.22.0"),
        ("openvino==2025.3,nncf==2.18", ["openvino==2025.3", "nncf==2.18"], "2025.3-nncf-2.18"),
        ("torch==2.11.0+cpu", ["torch==2.11.0+cpu"], "2.11.0-cpu"),
        ("optimum[b,A_c]==1.0", ["optimum[b,A_c]==1.0"], "1.0-a-c-b"),
    ],
)
def test_packages_and_their_labels(text: str, requirements: list[str], label: str) -> None:
    found = environment_request.packages(text)
    assert list(found.requirements.values()) == requirements
    assert found.label([*found.versions][:1]) == label
    assert Cell.from_path(f"toy/null/native/raw/null@{label}/cpu/b1t1").runtime.label == label


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("onnxruntime", "say one version, as in onnxruntime==1.2.3"),
        ("onnxruntime>=1.2,<1.3", "say one version"),
        ("onnxruntime==1.*", "say one version"),
        ("onnxruntime===-x", "say one version"),
        ('onnxruntime==1.0;python_version<"3"', "say one version"),
        (f"onnxruntime==1.0+{'x' * 300}", "say one version"),
        ("not a package", "not a package"),
        ("", "needs a package and a version"),
        ("a==1,a==2", "names a twice"),
        (",".join(f"a-long-name-{one}==1.{one}" for one in range(20)), "too many packages for the name of a cell"),
        ("./missing-1.0-py3-none-any.whl", "No such file"),
        ("./strange.whl", "not the name of a wheel"),
    ],
)
def test_what_is_no_package_is_refused_in_a_sentence(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        environment_request.packages(text)
    assert "\n" not in str(caught.value)


def test_builds_of_one_version_differ_in_their_label(tmp_path: Path) -> None:
    labels = []
    for content in (b"one", b"two"):
        wheel = tmp_path / "demo-1.0-py3-none-any.whl"
        wheel.write_bytes(content)
        labels.append(environment_request.packages(str(wheel)).label(["demo"]))
    assert labels[0] != labels[1]
    assert all(label.startswith("1.0-") for label in labels)


def test_a_label_is_part_of_the_path_and_the_plugin_is_found_by_its_own_name() -> None:
    path = "toy/null/native/dedup+onnxsim@0.4.36/onnxruntime@1.22.0/cpu/b1t1"
    cell = Cell.from_path(path)
    assert (cell.path, str(cell.runtime), cell.variant) == (path, "onnxruntime@1.22.0", "dedup+onnxsim@0.4.36")
    assert cell.runtime.plugin == "onnxruntime"
    assert catalog.runtime(cell.runtime) is catalog.runtime("onnxruntime")
    assert catalog.variant("onnxsim@0.4.36").variant.name == "onnxsim"
    for wrong in ("toy/null/native/raw/onnxruntime@/cpu/b1t1", "toy/null/native/raw/null/cpu@1/b1t1"):
        with pytest.raises(InputError, match="is not a name"):
            Cell.from_path(wrong)


def test_the_runtime_is_other_where_it_has_the_package_and_else_the_tool(plugin_folder: Path) -> None:
    plain = Cell.from_path("toy/null/native/onnxsim/onnxruntime/cpu/b1t1")
    of = {
        "onnxruntime==1.22.0": "toy/null/native/onnxsim/onnxruntime@1.22.0/cpu/b1t1",
        "onnxsim==0.4.36": "toy/null/native/onnxsim@0.4.36/onnxruntime/cpu/b1t1",
    }
    found = versions.cells_with([plain], [environment_request.packages(text) for text in of])
    assert [cell.path for cell in found] == list(of.values())
    with pytest.raises(InputError, match=r"made with openvino \(their packages are .*onnxruntime.*, onnxsim\)$"):
        versions.cells_with([plain], [environment_request.packages("openvino==2025.3.0")])


def test_a_cell_runs_in_the_environment_of_an_interpreter(plugin_folder: Path, tmp_path: Path) -> None:
    (plugin_folder / "runtimes").mkdir()
    (plugin_folder / "runtimes" / "demo.py").write_text(RUNTIME)
    python = environment_with(tmp_path / "other", "2.0")
    with pytest.raises(SystemExit) as ended:
        _main("run", CELL, "--python", str(python), "--launches", "1")
    assert ended.value.code in (0, None)
    (record,) = (one for one in folder.read(Path("results")).records.values() if "demo" in one.cell.path)
    version = ".".join(map(str, sys.version_info[:3]))
    assert str(record.cell.runtime).startswith(f"demo@python-{version}-")
    assert record.header.versions == {"python": version, "demo": "2.0"}
    assert record.quality is not None
    assert record.quality.fidelity == "exact"
    assert len(record.launches) == 1


@needs("compare")
def test_two_environments_are_compared_and_the_outputs_with_each_other(
    plugin_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (plugin_folder / "runtimes").mkdir()
    (plugin_folder / "runtimes" / "demo.py").write_text(RUNTIME)
    pythons = [environment_with(tmp_path / name, name, scale=scale) for name, scale in (("1.0", 1.0), ("2.0", 5.0))]
    named = [text for python in pythons for text in ("--python", str(python))]
    with pytest.raises(SystemExit) as ended:
        _main("compare", CELL, *named, "--budget", "5s", "--launches", "2", "--format", "json", "--strict")
    assert ended.value.code == 1
    (change,) = json.loads(capsys.readouterr().out)["cells"]
    assert change["cell"] == CELL
    assert (change["before"]["fidelity"], change["after"]["fidelity"]) == ("exact", "broken")
    assert change["note"] == "broken in B"


def test_the_guard_runs_the_pinned_artifact_with_its_own_versions(
    plugin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plugin_folder / "runtimes").mkdir()
    (plugin_folder / "runtimes" / "demo.py").write_text(RUNTIME)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "demo.py").write_text("SCALE = 1.0\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "here"))  # the package as it is installed for this command
    monkeypatch.setattr(installer, "resolved", lambda *_: LOCK)
    monkeypatch.setattr(installer, "make", lambda _, target, __: environment_with(target, "3.0", scale=1.5))
    cell, limits = Cell.from_path(CELL), Limits.of(step_s=60, memory_bytes=2**31)
    artifact = prepare.artifact_of(cell, limits)
    pair = check.pair(cell, artifact, cell, artifact, limits, environment_request.packages("demo==3.0"))
    assert (str(pair.pinned.cell.runtime), str(pair.new.cell.runtime)) == ("demo@3.0", "demo")
    assert pair.new.quality.fidelity == "drifted"  # it answers with two thirds of what the pinned version answers
    again = check.pair(
        pair.pinned.cell, artifact, pair.pinned.cell, artifact, limits, environment_request.packages("demo==3.0")
    )
    assert (again.pinned.cell, again.pinned.quality.fidelity) == (pair.pinned.cell, "exact")
    with pytest.raises(InputError, match="demo does not use other==1"):
        check.pair(cell, artifact, cell, artifact, limits, environment_request.packages("other==1"))
    for said in (False, True):  # as `--yes` says it
        check.pair(cell, artifact, cell, artifact, limits, environment_request.packages("demo==3.0"), may_be_large=said)
        assert environments._declared("runtimes", PluginName("demo", "3.0")).may_be_large == said


def _main(*arguments: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["bench", *arguments])
        main()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "no such file"),
        ("#!/bin/sh\nexit 0\n", "its answer cannot be read"),
        ("#!/bin/sh\nprintf '\\377\\376'\n", "its answer cannot be read"),
        ("#!/bin/sh\nhead -c 300000 /dev/zero | tr '\\0' '['\n", "its answer cannot be read"),
        (
            '#!/bin/sh\nprintf \'{"python": "../x", "packages": {}, "provides": {}}\'\n',
            "its answer cannot be read",
        ),
        ("#!/bin/sh\necho 'Python 3.8 is too old; 3.10 is the oldest' >&2; exit 1\n", "Python 3.8 is too old"),
        ("not a program", "not a Python interpreter"),
        ("#!/bin/sh\necho \"$0: cannot access '$3'\" >&2; exit 2\n", "not a Python interpreter$"),
    ],
)
def test_what_is_no_interpreter_is_refused_in_a_sentence(tmp_path: Path, content: str | None, why: str) -> None:
    path = tmp_path / "python"
    if content is not None:
        path.write_text(content)
        path.chmod(0o755)
    with pytest.raises(InputError, match=why):
        environment_request.environment(path)


def test_a_folder_is_told_from_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    with pytest.raises(
        InputError, match=f"not a file; name an environment's interpreter, such as {tmp_path}/bin/python"
    ):
        environment_request.environment(tmp_path)


def test_an_environment_that_cannot_be_made_is_a_row(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def resolved(*_: object) -> str:
        calls.append(1)
        raise ArtifactError("there is no version of onnxruntime==99.0")

    monkeypatch.setattr(installer, "resolved", resolved)
    (cell,) = versions.cells_with(
        [Cell.from_path("toy/null/native/raw/onnxruntime/cpu/b1t1")],
        [environment_request.packages("onnxruntime==99.0")],
    )
    for _ in range(2):
        with pytest.raises(ArtifactError, match=r"onnxruntime@99\.0: there is no version of onnxruntime==99\.0"):
            environments.of("runtimes", cell.runtime)
    assert len(calls) == 2  # with the versions of this environment and without, but only once each


def test_an_environment_that_cannot_be_made_fails_no_other_row(
    plugin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plugin_folder / "runtimes").mkdir()
    (plugin_folder / "runtimes" / "demo.py").write_text(RUNTIME)

    def resolved(*_: object) -> str:
        raise ArtifactError("there is no version of demo==9.9")

    monkeypatch.setattr(installer, "resolved", resolved)
    with pytest.raises(SystemExit) as ended:
        _main("run", CELL, "--with", "demo==9.9", "--launches", "1")
    assert ended.value.code == 1
    found = {path: record.failure for path, record in folder.read(Path("results")).records.items()}
    assert found.pop("toy/null/native/raw/null/cpu/b1t1") is None  # the baseline, which runs the same artifact
    (failure,) = found.values()
    assert failure is not None
    assert failure.reason == "demo@9.9: there is no version of demo==9.9"


@needs("compare")
def test_a_version_that_cannot_be_made_is_worse_on_either_side(
    plugin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (plugin_folder / "runtimes").mkdir()
    (plugin_folder / "runtimes" / "demo.py").write_text(RUNTIME)

    def resolved(*_: object) -> str:
        raise ArtifactError("there is no version of demo==9.9")

    monkeypatch.setattr(installer, "resolved", resolved)
    python = environment_with(tmp_path / "other", "2.0")
    both = ["--with", "demo==9.9", "--python", str(python), "--budget", "2s", "--launches", "2", "--strict"]
    with pytest.raises(SystemExit) as ended:
        _main("compare", CELL, *both)
    assert ended.value.code == 1
    assert "there is no version of demo==9.9" in capsys.readouterr().out


@needs("compare")
def test_a_comparison_names_the_version_of_this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.features.compare import versions as compared

    own = Installed(python="3.11.7", packages={"Demo_Pack": "3.1", "numpy": "2.1.0"}, provides={})
    monkeypatch.setattr(environments, "own", lambda: own)
    assert compared.here(environment_request.packages("demo-pack==2.0")) == "demo-pack 3.1"
    assert (
        compared.here(environment_request.packages("demo-pack==2.0,other==1.0")) == "demo-pack 3.1, other not installed"
    )
    python = environment_request.Asked(text="/other/python", python="/other/python", python_version="3.12.1")
    assert compared.here(python) == "Python 3.11.7 of this command"


def test_environments_with_the_same_packages_are_one_and_are_found_again(
    plugin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []

    def make(lock: str, target: Path, python: str) -> None:
        made.append(target)
        environment_with(target, "3.0")

    monkeypatch.setattr(installer, "resolved", lambda *_: LOCK)
    monkeypatch.setattr(installer, "make", make)
    wanted = environment_request.packages("demo==3.0")
    names = [environments.declare("runtimes", PluginName(plugin), ["demo"], wanted) for plugin in ("one", "other")]
    assert [str(name) for name in names] == ["one@3.0", "other@3.0"]
    pythons = {environments.of("runtimes", name).interpreter.python for name in names}
    assert len(pythons) == len(made) == 1
    environments._MADE.clear()  # as in another process
    assert environments.of("runtimes", PluginName("one", "3.0")).installed.packages["demo"] == "3.0"
    assert len(made) == 1
    there = environments.remove_all(dry_run=True)
    assert there > 0
    assert environments.remove_all() == there, "a dry run removes nothing"
    environments._MADE.clear()
    environments.of("runtimes", PluginName("one", "3.0"))  # its name still says what it is
    assert len(made) == 2
    with pytest.raises(ArtifactError, match="is not known here"):
        environments.of("runtimes", PluginName("one", "4.0"))
    with pytest.raises(InputError, match=r"null@4\.0: this environment is not known here"):
        selection.select(["toy/null/native/raw/null@4.0/cpu/b1t1"], None)


@pytest.mark.parametrize(
    "content",
    [
        *(pytest.param(content, marks=pytest.mark.thorough) for content in (b"", b"[]", b"\xff")),
        *(b"{", b"[" * 200_000, b'{"digest": "../..", "installed": {}}', None),
    ],
    ids=["empty", "a list", "no text", "cut short", "deep", "elsewhere", "gone"],  # a child's environment has the name
)
def test_a_damaged_entry_of_the_cache_is_made_again(
    plugin_folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    made: list[Path] = []

    def make(lock: str, target: Path, python: str) -> None:
        made.append(target)
        (target / "bin").mkdir(parents=True)
        (target / "bin" / "python").symlink_to(sys.executable)

    monkeypatch.setattr(installer, "resolved", lambda *_: LOCK)
    monkeypatch.setattr(installer, "make", make)
    name = environments.declare("runtimes", PluginName("demo"), ["demo"], environment_request.packages("demo==3.0"))
    environments.of("runtimes", name)
    environments._MADE.clear()
    (entry,) = (installer.folder() / "made").glob("*.json")
    if content is None:
        shutil.rmtree(made[0])
    else:
        entry.write_bytes(content)
    environments.of("runtimes", name)
    assert len(made) == (2 if content is None else 1)  # the environment itself was whole
    environments._MADE.clear()
    lock = entry.with_name(f"{entry.name}.lock")
    lock.unlink()
    lock.symlink_to(entry)
    with pytest.raises(ArtifactError, match="is a symbolic link"):
        environments.of("runtimes", name)


def test_a_version_takes_the_place_of_another_one(plugin_folder: Path) -> None:
    cell = Cell.from_path("toy/null/native/onnxsim@0.4.33/onnxruntime@1.22.0/cpu/b1t1")
    of = {
        "onnxruntime==1.26.0": "toy/null/native/onnxsim@0.4.33/onnxruntime@1.26.0/cpu/b1t1",
        "onnxsim==0.4.36": "toy/null/native/onnxsim@0.4.36/onnxruntime@1.22.0/cpu/b1t1",
    }
    found = versions.cells_with([cell], [environment_request.packages(text) for text in of])
    assert [one.path for one in found] == list(of.values())
    assert [Cell.from_path(one.path) for one in found] == found


def test_one_interpreter_has_one_label_wherever_it_is_named_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = environment_with(tmp_path / "other", "2.0")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    found = environment_request.environment(Path("../other/bin/python"))
    assert found.python == str(python)
    assert found.label(()) == environment_request.environment(python).label(())


def test_files_of_two_builds_of_one_version_of_a_tool_are_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "versions_of", lambda *_: {"onnxsim": "0.4.36"})
    plugin = catalog.variant("onnxsim").variant
    made = [provenance.recipe("variants", PluginName("onnxsim", f"0.4.36-{build}"), plugin) for build in ("aa", "bb")]
    assert made[0]["versions"] == made[1]["versions"]
    assert made[0] != made[1]


def test_an_environment_is_made_for_the_versions_that_are_here_now(
    plugin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a distribution's own name is not the canonical one."""
    beside = []

    def resolved(wanted: object, constraints: list[str], python: str) -> str:
        beside.append(constraints)
        return f"# {constraints}"

    def make(lock: str, target: Path, python: str) -> None:
        environment_with(target, "3.0")

    monkeypatch.setattr(installer, "resolved", resolved)
    monkeypatch.setattr(installer, "make", make)
    for version in ("1.0", "1.1"):
        here = Installed(
            python="3.11.0", packages={"My_Tool": version, "numpy": "2.0"}, provides={"my_tool": ["My_Tool"]}
        )
        monkeypatch.setattr(environments, "own", lambda here=here: here)
        monkeypatch.setattr(importlib.metadata, "version", {"my-tool": version, "numpy": "2.0"}.__getitem__)
        name = environments.declare(
            "runtimes", PluginName("demo"), ["demo", "my_tool"], environment_request.packages("demo==3.0")
        )
        environments.of("runtimes", name)
        environments._MADE.clear()  # as in another process
    assert beside == [["my-tool==1.0", "numpy==2.0"], ["my-tool==1.1", "numpy==2.0"]]
