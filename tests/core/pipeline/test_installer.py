"""The installer of environments: what uv is told, and what it answers."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from bench.api.errors import ArtifactError
from bench.measure import supervised_program
from bench.pipeline import environment_request, installer


def test_an_installer_ends_with_the_command_and_takes_no_code_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pip.py").write_text("raise SystemExit('code of the working folder')")
    assert "code of the working folder" not in supervised_program.run([*installer.PIP, "--version"], limit_s=60).stderr
    marker = tmp_path / "pid"
    slow = f"import os, time; open({str(marker)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(subprocess.TimeoutExpired):
        supervised_program.run([sys.executable, "-I", "-S", "-c", slow], limit_s=1.5)
    assert not Path("/proc", marker.read_text()).exists()


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        (
            "error: No solution found when resolving dependencies\n  cause: Because there is no version of demo==9 and "
            "you require demo==9, we can conclude that your requirements are unsatisfiable.\n\nhint: try another\n",
            "Because there is no version of demo==9 and you require demo==9",
        ),
        (
            "error: Request failed after 3 retries in 7.8s\n  cause: Failed to fetch: http://127.0.0.1:9/demo/\n",
            "the package index cannot be reached: Failed to fetch: http://.../demo/",
        ),
        (
            "WARNING: slow\nERROR: No matching distribution found for demo==9\n",
            "No matching distribution found for demo==9",
        ),
        (
            f"error: Failed to build {'x' * 400}: no C compiler\n",
            f"Failed to build {'x' * 132} ... {'x' * 132}: no C compiler",
        ),
        ("Killed\n", "Killed"),
        ("", "it said nothing"),
    ],
)
def test_the_reason_of_an_installer_is_a_line(printed: str, reason: str) -> None:
    assert installer.reason_of(printed) == reason


def test_pips_indexes_and_links_are_handed_on(tmp_path: Path) -> None:
    listed = (
        ":env:.index-url='https://own.example/simple'\nglobal.index-url='https://other.example/simple'\n"
        f"global.find-links='{tmp_path} /nowhere'\nglobal.extra-index-url='file:///nowhere https://more.example/simple'\n"
    )
    found = installer.handed_on(listed)
    assert found["UV_DEFAULT_INDEX"] == "https://own.example/simple"
    assert found["UV_FIND_LINKS"] == str(tmp_path)
    assert found["UV_INDEX"] == "https://more.example/simple"


def test_pips_values_are_read_as_pip_prints_them(tmp_path: Path) -> None:
    """Several lines in a file of settings, quotes, and each word for yes."""
    listed = (
        f"global.find-links='\\n{tmp_path}\\n{tmp_path.parent}'\n"
        "global.extra-index-url='\\nhttps://one.example/simple\\nhttps://two.example/simple'\n"
        "global.no-index='yes'\nglobal.trusted-host='one.example'\nglobal.broken='\\x'\n"
        """install.index-url="https://it's.example/simple"\n"""
    )
    found = installer.handed_on(listed)
    assert found["UV_FIND_LINKS"] == f"{tmp_path},{tmp_path.parent}"
    assert found["UV_INDEX"] == "https://one.example/simple https://two.example/simple"
    assert found["UV_DEFAULT_INDEX"] == "https://it's.example/simple"
    assert found["UV_INSECURE_HOST"] == "one.example"
    assert found[installer.NO_INDEX] == "1"
    assert installer.NO_INDEX not in installer.handed_on("global.no-index='no'\n")


def test_uv_asks_no_index_where_pip_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """uv heeds no variable for it."""
    commands = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, stdout="", stderr="")

    monkeypatch.setattr(installer, "_uv", lambda: "uv")
    monkeypatch.setattr(installer, "_settings", lambda: {installer.NO_INDEX: "1"})
    monkeypatch.setattr(supervised_program, "run", run)
    with pytest.raises(OSError, match=r"pylock\.toml"):  # nothing was written
        installer.resolved(["demo==1"], [], "python")
    assert commands[0][-1] == "--no-index"


def test_a_download_of_gigabytes_is_asked_for() -> None:
    wheel = '[[packages]]\nname = "{}"\nversion = "1"\nwheels = [{{ url = "https://a.example/x.whl", size = {} }}]\n'
    lock = 'lock-version = "1.0"\n' + wheel.format("torch", 900_000_000) + wheel.format("cuda", 2_100_000_000)
    with pytest.raises(ArtifactError, match=r"a download of 3\.0 GB, 2\.1 GB of it cuda; --yes allows that"):
        installer.check_size(lock, may_be_large=False)
    installer.check_size(lock, may_be_large=True)
    installer.check_size('lock-version = "1.0"\n' + wheel.format("small", 10), may_be_large=False)


def write_wheel(folder: Path, name: str, version: str, needs: str = "") -> Path:
    """A wheel with one module, which tells the version."""
    facts, place = f"{name}-{version}.dist-info", folder / f"{name}-{version}-py3-none-any.whl"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{facts}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{facts}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{facts}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{facts}/RECORD"])
    with zipfile.ZipFile(place, "w") as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
    return place


def test_packages_are_resolved_and_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To all packages with their versions; a wheel on disk with its digest, for its content may change in place."""
    demo = write_wheel(tmp_path, "demo", "1.0", "Requires-Dist: helper\n")
    for version in ("1.0", "2.0"):
        write_wheel(tmp_path, "helper", version)
    monkeypatch.setattr(
        installer, "_settings", lambda: {installer.NO_INDEX: "1", "UV_FIND_LINKS": str(tmp_path), "UV_OFFLINE": "1"}
    )
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    wanted = [*environment_request.packages(str(demo)).requirements.values()]
    lock = installer.resolved(wanted, ["helper==1.0"], sys.executable)
    assert {one["name"]: one["version"] for one in tomllib.loads(lock)["packages"]} == {"demo": "1.0", "helper": "1.0"}
    assert hashlib.sha256(demo.read_bytes()).hexdigest() in lock
    (newest,) = tomllib.loads(installer.resolved(["helper"], [], sys.executable))["packages"]
    assert newest["version"] == "2.0"
    with pytest.raises(ArtifactError, match="helper==3"):
        installer.resolved(["helper==3"], [], sys.executable)
    installer.make(lock, tmp_path / "made", sys.executable)
    command = [str(installer.program(tmp_path / "made")), "-I", "-c", "import demo, helper; print(helper.VERSION)"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1.0\n"


def test_a_missing_uv_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    with pytest.raises(ArtifactError, match=r"uv, which is missing here; `pip install uv`"):
        installer.resolved(["demo"], [], sys.executable)
