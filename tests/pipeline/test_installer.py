"""The installers of environments: uv and pip, what they are told, and what they answer."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from bench.api.errors import ArtifactError
from bench.measure import kept
from bench.pipeline import asked, installer


def test_an_installer_ends_with_the_command_and_takes_no_code_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pip.py").write_text("raise SystemExit('code of the working folder')")
    assert "code of the working folder" not in kept.run([*installer.PIP, "--version"], limit_s=60).stderr
    marker = tmp_path / "pid"
    slow = f"import os, time; open({str(marker)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(subprocess.TimeoutExpired):
        kept.run([sys.executable, "-I", "-S", "-c", slow], limit_s=1.5)
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
    monkeypatch.setattr(kept, "run", run)
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


def test_pip_resolves_where_uv_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To all packages with their versions; a wheel on disk with its digest, for its content may change in place."""
    links = tmp_path / "links"
    links.mkdir()
    for name, version, needs in (
        ("demo", "1.0", "Requires-Dist: helper\n"),
        ("helper", "1.0", ""),
        ("helper", "2.0", ""),
    ):
        facts, place = f"{name}-{version}.dist-info", links / f"{name}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(place, "w") as wheel:
            wheel.writestr(f"{name}.py", "BUILD = 1\n")
            wheel.writestr(f"{facts}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
            wheel.writestr(f"{facts}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{facts}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    monkeypatch.setenv("PIP_CONSTRAINT", "")
    monkeypatch.setattr(installer, "_uv", lambda: None)
    demo = asked.packages(str(links / "demo-1.0-py3-none-any.whl"))
    lock = installer.resolved([*demo.requirements.values()], ["helper==1.0"], sys.executable)
    assert lock.splitlines() == [*demo.requirements.values(), "helper==1.0"]
    assert installer.resolved(["helper"], [], sys.executable) == "helper==2.0"
    with pytest.raises(ArtifactError, match="No matching distribution found for helper==3"):
        installer.resolved(["helper==3"], [], sys.executable)
