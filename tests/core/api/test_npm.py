"""Packages of npm: what is said where they are missing, and an installation that fails or is stopped half way."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.api import npm
from bench.api.cell import Cell
from bench.api.errors import ArtifactError
from bench.pipeline import code_digests, environments, npm_packages, provenance
from bench.plugins import catalog
from support import node

NAME = "onnxruntime-node"
ROOT = Path(__file__).parents[3]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the packages, which is not there; Node.js is, and npm is a script that `npm_does` writes."""
    folder = tmp_path / "share" / "digest"
    monkeypatch.setattr(npm, "PLACES", folder.parent)
    monkeypatch.setattr(npm, "place", lambda: folder)
    monkeypatch.delenv(npm.FOLDER, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    npm_does(tmp_path, "exit 0")
    (tmp_path / "bin" / "node").symlink_to(tmp_path / "bin" / "npm")
    return folder


def npm_does(folder: Path, script: str) -> None:
    program = folder / "bin" / "npm"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_the_lock_file_has_a_digest_of_each_package_and_names_no_host() -> None:
    packages = json.loads((npm.LISTS / "package-lock.json").read_text())["packages"]
    assert f"node_modules/{NAME}" in packages
    own = packages.pop("")
    assert all(each["integrity"].startswith("sha512-") and "resolved" not in each for each in packages.values())
    assert own["dependencies"] == json.loads((npm.LISTS / "package.json").read_text())["dependencies"]


def test_what_is_missing_is_said_with_the_command_that_installs_it(place: Path) -> None:
    runtime = catalog.runtime("onnxruntime_node")
    assert runtime.skip() == f"{NAME} not installed; `bench install npm`"
    (place.parents[1] / "bin" / "node").unlink()
    assert str(runtime.skip()).startswith("Node.js not installed; `apt-get install nodejs npm`")


def test_tests_of_such_runtimes_fail_where_packages_are_required(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = catalog.runtime("onnxruntime_node")
    reason = f"onnxruntime_node: {NAME} not installed; `bench install npm`"
    monkeypatch.delenv("REQUIRE_NODE", raising=False)
    with pytest.raises(pytest.skip.Exception) as skipped:
        node.need(runtime)
    monkeypatch.setenv("REQUIRE_NODE", "1")
    with pytest.raises(pytest.fail.Exception) as failed:
        node.need(runtime)
    assert (str(skipped.value), str(failed.value)) == (reason, reason)
    node.need(catalog.runtime("onnxruntime"))  # which needs none
    (place / "node_modules" / NAME).mkdir(parents=True)
    (place / "node_modules" / NAME / "package.json").write_text('{"version": "1.0.0"}')
    node.need(runtime)


def test_continuous_integration_requires_what_tests_may_lack() -> None:
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    read = {name for text in texts for name in re.findall(r"\bREQUIRE_[A-Z]+", text)}
    (line,) = re.findall(r"^export (.*REQUIRE.*)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert set(line.split()) == {f"{name}=1" for name in read}


def test_packages_are_installed_whole_without_scripts_and_those_of_other_systems(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        'case "$*" in *--ignore-scripts*) ;; *) exit 1 ;; esac',
        "/bin/test -f package.json && /bin/test -f package-lock.json || exit 2",
        f"/bin/mkdir -p node_modules/{NAME}",
        f'echo \'{{"version": "1.2.3"}}\' > node_modules/{NAME}/package.json',
        *(
            f"/bin/mkdir -p node_modules/{NAME}/bin/napi-v6/{system}/{processor}"
            for system in ("linux", "darwin")
            for processor in ("x64", "arm64")
        ),
    ]
    monkeypatch.setattr(npm_packages.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(npm_packages.sys, "platform", "linux")
    npm_does(tmp_path, "\n".join(lines))
    assert npm_packages.install() == place
    assert npm.version(NAME) == "1.2.3"
    provenance.versions.cache_clear()
    assert provenance.versions((f"npm:{NAME}",))[f"npm:{NAME}"] == "1.2.3"
    provenance.versions.cache_clear()
    kept = [path.relative_to(place).as_posix() for path in place.glob("node_modules/*/bin/*/*/*")]
    assert kept == [f"node_modules/{NAME}/bin/napi-v6/linux/x64"]
    npm_does(tmp_path, "exit 1")
    assert npm_packages.install() == place, "what is there is not installed again"


def test_of_packages_that_say_so_only_the_files_that_are_loaded_stay(place: Path, tmp_path: Path) -> None:
    dist, other = "node_modules/onnxruntime-web/dist", "node_modules/other/dist"
    lines = [
        f"/bin/mkdir -p {dist} {other}",
        f"for file in ort.wasm.min.mjs ort.wasm.min.mjs.map ort.all.mjs; do echo x > {dist}/$file; done",
        f"echo x > {dist}/../package.json; echo x > {other}/any.js",
    ]
    npm_does(tmp_path, "\n".join(lines))
    npm_packages.install()
    left = {
        path.relative_to(place / "node_modules").as_posix()
        for path in place.glob("node_modules/**/*")
        if path.is_file()
    }
    kept = {"onnxruntime-web/dist/ort.wasm.min.mjs", "onnxruntime-web/package.json", "other/dist/any.js"}
    assert left == kept


def test_an_installation_that_fails_leaves_nothing(place: Path, tmp_path: Path) -> None:
    npm_does(tmp_path, "/bin/mkdir node_modules; echo 'npm error code EINTEGRITY' >&2; exit 1")
    with pytest.raises(ArtifactError, match=r"^npm failed: npm error code EINTEGRITY"):
        npm_packages.install()
    assert [path.name for path in place.parent.iterdir()] == ["lock"]
    (tmp_path / "bin" / "npm").unlink()
    with pytest.raises(ArtifactError, match=r"^npm not installed; "):
        npm_packages.install()


def installing(place: Path) -> subprocess.Popen[bytes]:
    """Another process that installs the packages."""
    code = f"""if True:
        from pathlib import Path
        from bench.api import npm
        from bench.pipeline import npm_packages
        npm.place = lambda: Path({str(place)!r})
        npm_packages.install()
    """
    return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_what_a_killed_installation_left_is_removed_by_the_next(place: Path, tmp_path: Path) -> None:
    npm_does(tmp_path, f"/bin/mkdir -p node_modules/{NAME}; exec /bin/sleep 60")
    with installing(place) as process:
        end = time.monotonic() + 30
        while not list(place.parent.glob("under-way-*/node_modules")) and time.monotonic() < end:
            time.sleep(0.02)
        process.kill()
    assert not place.exists()
    npm_does(tmp_path, f"/bin/mkdir -p node_modules/{NAME}")
    assert npm_packages.install() == place
    assert sorted(path.name for path in place.parent.iterdir()) == ["digest", "lock"]
    assert place.stat().st_mode & 0o777 == 0o755, "for other users, too"


def test_two_that_install_at_once_install_once(place: Path, tmp_path: Path) -> None:
    npm_does(tmp_path, f"/bin/mkdir -p node_modules/{NAME}; echo >> {tmp_path}/count; /bin/sleep 0.5")
    processes = [installing(place), installing(place)]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert (tmp_path / "count").read_text() == "\n"


def test_figures_depend_on_the_program_and_on_what_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = catalog.runtime("onnxruntime_node")
    cell = Cell.from_path("crnn/torch/torch_onnx/raw/onnxruntime_node/cpu/b1t1")
    monkeypatch.setattr(npm, "node_version", lambda: "v1.2.3")
    assert provenance.versions_run(cell)["node"] == "v1.2.3", "it is shown beside the figures, and part of their key"
    before = code_digests.of_plugin(runtime)
    assert {path.name for path in npm.files()} == {
        "package.json",
        "package-lock.json",
        "shared.mjs",
        "worker.mjs",
    }
    changed = shutil.copy(npm.LISTS / "worker.mjs", tmp_path)
    with Path(changed).open("a") as file:
        file.write("// changed\n")
    files = [path for path in npm.files() if path.name != "worker.mjs"]
    monkeypatch.setattr(npm, "files", lambda: [*files, Path(changed)])
    assert code_digests.of_plugin(runtime) != before


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_the_packages_are_there_where_npm_is() -> None:
    """`make install` installs them; a version that is pinned and cannot work is to fail tests, not to skip them."""
    assert npm.lacking([NAME]) is None


def test_the_folder_that_a_variable_names_to_a_worker_is_not_touched(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "of another program"
    other.mkdir()
    (other / "file").touch()
    monkeypatch.setenv(npm.FOLDER, str(other))
    npm_does(tmp_path, "/bin/mkdir node_modules")
    assert npm_packages.install() == place
    assert (other / "file").exists()


def test_packages_of_npm_are_no_distributions_of_another_environment() -> None:
    requires = catalog.runtime("litert_js").requires
    assert any(name.startswith("npm:") for name in requires)
    assert environments.own().distributions(requires) == ("ai-edge-litert",)
