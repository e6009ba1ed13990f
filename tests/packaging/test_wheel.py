"""The wheel, as a release builds it: which files it has, and that its commands work where there is no repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path

import pytest
from onnx import TensorProto, helper
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.features import is_there, needs

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.slow(seconds=3)

ROOT = Path(__file__).parents[2]
SOURCES = ("bench", "models", "datasets", "setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")
SHORT = ["--launches", "1", "--budget", "30s"]
Bench = Callable[..., subprocess.CompletedProcess[str]]
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def run_step(name: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step of the workflow that makes releases in a folder, with this interpreter as `python`."""
    jobs = yaml.safe_load(RELEASE.read_text(encoding="utf-8"))["jobs"].values()
    (script,) = (step["run"] for job in jobs for step in job["steps"] if step.get("name") == name)
    environment = {key: value for key, value in os.environ.items() if key not in ("BENCH_PATH", "PYTHONPATH")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-c", script],
        cwd=folder,
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built offline from a copy of the sources: a build leaves folders beside them."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "repository"
    copy.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.safetensors", "*.png")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        else:
            shutil.copyfile(ROOT / name, copy / name)
    done = run_step("Build", copy, GITHUB_REF_NAME=f"v{VERSION}", PIP_NO_INDEX="1")
    assert done.returncode == 0, done.stdout
    (built,) = (copy / "dist").glob("*.whl")
    assert [path.suffixes[-2:] for path in (copy / "dist").iterdir() if path != built] == [[".tar", ".gz"]]
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel and, as links to this one, the packages that it requires without extras."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib*/python3*/site-packages"))
    python = str(folder / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--no-deps"]
    subprocess.run([*pip, "--no-index", str(wheel)], capture_output=True, timeout=100, check=True)
    for path in required(Requirement("inferometer"), metadata.distributions(path=[str(packages)])):
        if not (packages / path.name).exists():
            (packages / path.name).symlink_to(path)
    (packages / "models" / "foreign").mkdir(parents=True)
    (packages / "models" / "foreign" / "task.py").write_text("raise SystemExit('a file of another package was run')\n")
    return folder


def required(requirement: Requirement, more: Iterable[metadata.Distribution] = ()) -> set[Path]:
    """Files and folders in site-packages of all that a distribution requires, and of what that requires."""
    found = {canonicalize_name(each.name): each for each in (*metadata.distributions(), *more)}
    waiting, seen, paths = [requirement], set(), set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if (name, extras := frozenset(wanted.extras)) in seen:
            continue
        seen.add((name, extras))
        for text in found[name].requires or []:
            other = Requirement(text)
            if other.marker is None or any(other.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                waiting.append(other)
        if wanted is not requirement:
            tops = {file.parts[0] for file in found[name].files or [] if file.parts[0] != ".."}
            paths |= {Path(str(found[name].locate_file(top))) for top in tops}
    return paths


@pytest.fixture(scope="module")
def bench(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Runs the installed command in a folder that is not the repository's."""
    folder = tmp_path_factory.mktemp("elsewhere")
    environment = {name: value for name, value in os.environ.items() if name not in ("BENCH_PATH", "PYTHONPATH")}
    environment["BENCH_CACHE"] = str(folder / "cache")

    def run(*arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [installed / "bin" / "bench", *arguments]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=250, check=False
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    save_relu(folder / "relu.onnx")
    return run


def save_relu(path: Path) -> None:
    """y = max(x, 0) for x of 4 columns."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "graph", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path.write_bytes(model.SerializeToString())


def test_files_of_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.partition("/")[0] for name in names} == {"bench", f"inferometer-{VERSION}.dist-info"}
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "bench").rglob("*.py")}
    assert sources - names == set()
    kept = (ROOT / "bench").rglob("*")
    data = {path.relative_to(ROOT).as_posix() for path in kept if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert {"bench/py.typed", "bench/plugins/models/toy/weights.json", "bench/report/templates/latex.j2"} <= data
    assert "bench/features/page/page.js" in data or not is_there("page")
    packed = {name for name in names if name.startswith("bench/") and not name.endswith(".py")}
    assert packed == data | {"bench/api/in_repository.txt"}


def test_wheel_lists_what_only_the_repository_has(wheel: Path) -> None:
    listed = zipfile.ZipFile(wheel).read("bench/api/in_repository.txt").decode().splitlines()
    entries = [*ROOT.glob("models/*/task.py"), *ROOT.glob("datasets/*/dataset.py")]
    assert sorted(listed) == sorted(entry.parent.relative_to(ROOT).as_posix() for entry in entries)


def test_package_that_runs_is_the_wheels(installed: Path, tmp_path: Path) -> None:
    code = "import bench; from bench.api import loading; print(bench.__file__, loading.search_path())"
    environment = {name: value for name, value in os.environ.items() if name not in ("BENCH_PATH", "PYTHONPATH")}
    command = [installed / "bin" / "python", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    file, _, folders = done.stdout.partition(" ")
    assert Path(file).is_relative_to(installed)
    assert str(ROOT) not in folders
    assert folders.count("Path(") == 2, "the working folder and the package's own plugins, not site-packages"


def test_environment_has_no_extras(installed: Path) -> None:
    code = (
        "import importlib.util; print([importlib.util.find_spec(name) for name in ('torch', 'tensorflow', 'pandas')])"
    )
    done = subprocess.run([installed / "bin" / "python", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[None, None, None]\n"


@needs("doctor")
def test_doctor(bench: Bench) -> None:
    assert "onnxruntime " in bench("doctor").stdout


def test_list_says_where_the_reference_models_are(bench: Bench) -> None:
    lines = bench("list").stdout.splitlines()
    states = {words[0]: words[1] for line in lines if len(words := line.split(maxsplit=1)) == 2}
    assert states["crnn"] == "in the repository: git clone it, and run `make install` there"
    assert states["toy"].startswith("usable")
    assert "foreign" not in states


COMMANDS = """
import json, sys
from bench.cli.main import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["bench", *arguments]
    try:
        main()
    except SystemExit as end:
        print(end.code, file=sys.stderr)
"""


def test_what_needs_the_repository_says_so(installed: Path, tmp_path: Path) -> None:
    """A full sweep, a quick one, a glob and a cell."""
    cell = "crnn/torch/native/raw/pytorch/cpu/b1t1"
    commands = [["run"], ["run", "--sweep", "quick"], ["run", "crnn/*"], ["run", cell]]
    environment = {name: value for name, value in os.environ.items() if name not in ("BENCH_PATH", "PYTHONPATH")}
    environment["BENCH_CACHE"] = str(tmp_path / "cache")
    command = [installed / "bin" / "python", "-P", "-c", COMMANDS, json.dumps(commands)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=250, check=True
    )
    said = iter(done.stderr.splitlines())
    for says in (
        "no task to sweep over: the reference models (albert, albert_base, codegen_lm, crnn, super_resolution) are",
        "no task named 'super_resolution'; in the repository: git clone",
        "no cell matches 'crnn/*'; it is in the repository: git clone",
        "no task named 'crnn'; in the repository: git clone",
    ):
        assert says in next(said)
        assert next(said) == "2"


@needs("profile")
@pytest.mark.thorough
def test_toy_and_a_model_of_ones_own_in_one_table(bench: Bench) -> None:
    assert "Relu" in bench("profile", "relu.onnx").stdout
    bench("run", "toy/*", *SHORT, "--strict")
    bench("run", "--model", "relu.onnx", "onnx/native/raw/onnxruntime/cpu/b1t1", *SHORT, "--strict")
    shown = bench("show", "--format", "csv").stdout
    assert "relu/onnx/native/raw/onnxruntime/cpu/b1t1" in shown
    assert "toy/" in shown


@pytest.mark.thorough
def test_a_release_checks_the_wheel_from_a_model_to_a_pick_and_a_page(installed: Path, tmp_path: Path) -> None:
    """The script that the release runs, without the repository and without extras."""
    (tmp_path / "installed").symlink_to(installed)
    done = run_step("Use", tmp_path, BENCH_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout
    assert "next: bench" in done.stdout
    assert {"model.onnx"} <= {path.name for path in (tmp_path / "picked").iterdir()}
    assert "small/onnx/native/raw/onnxruntime/cpu/b1t1" in (tmp_path / "page.html").read_text(encoding="utf-8")
