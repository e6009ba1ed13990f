"""Do versions that are the same pass for the same, and versions that differ for different? Is a planted release found?

Three questions, each with environments that `--with` makes:

- `same`: the installed version of a runtime's package against the same version in an environment of its own, for
  different models and runtimes; nothing differs, so at most 5 % may be called faster or slower.
- `differ`: two wheels of a runtime that is made here, of which the second does 3 % more arithmetic; all but 5 % must be
  called slower.
- `bisect`: eight wheels, of which one brought 5 % more arithmetic; `bench bisect` must name it each time.

The script prints a line for each comparison, and fails where too many are wrong.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

BENCH = (sys.executable, "-P", "-c", "from bench.cli.main import main; main()")
SAME = (
    ("onnxruntime", "{task}/torch/torch_onnx/raw/onnxruntime/cpu/b1t1"),
    ("onnxruntime", "{task}/torch/torch_onnx/int8_static-minmax-channel/onnxruntime/cpu/b1t1"),
    ("onnxruntime", "{task}/torch/torch_onnx/raw/onnxruntime_iobinding/cpu/b1t1"),
    ("openvino", "{task}/torch/torch_onnx/raw/openvino/cpu/b1t1"),
    ("ai-edge-litert", "{task}/tf/tflite/raw/litert/cpu/b1t1"),
)
TASKS = ("crnn", "albert", "super_resolution")
MOST_LAUNCHES = 24
"""Of each version: to tell 3 % apart takes more of them than the command's own six."""
ROUNDS = 200  # of the planted runtime's arithmetic
RUNTIME = '''
from bench.api import Runtime, Session


class Planted(Session):
    def __init__(self, task):
        import inferometer_planted

        self._work, self._name = inferometer_planted.work, task.inputs[0].name

    def run(self, feeds):
        self._work()
        return [feeds[self._name] * 2.0]


class PlantedRuntime(Runtime):
    """Counted arithmetic of a package that exists in several versions."""

    formats = ("null",)
    requires = ("inferometer_planted",)

    def open(self, artifact, *, task, source, provider, threads):
        return Planted(task)
'''
NAME = "inferometer_planted"
"""Name of the package that is made here; no index has it."""
PACKAGE = """
import hashlib

BLOCK = bytes(1024)


def work():
    digest = hashlib.sha256()
    for _ in range({rounds}):
        digest.update(BLOCK)
"""
CELL = "toy/null/native/raw/planted/cpu/b1t1"


def wheel(folder: Path, version: str, rounds: int) -> Path:
    """Write a wheel of the planted runtime's package."""
    files = {
        f"{NAME}.py": PACKAGE.format(rounds=rounds),
        f"{NAME}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n",
        f"{NAME}-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{NAME}-{version}.dist-info/top_level.txt": f"{NAME}\n",
    }
    lines = [f"{name},sha256={_digest(text)},{len(text)}" for name, text in files.items()]
    record = f"{NAME}-{version}.dist-info/RECORD"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{NAME}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, record: "\n".join([*lines, f"{record},,", ""])}.items():
            archive.writestr(zipfile.ZipInfo(name, date_time=(2020, 1, 1, 0, 0, 0)), text)
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def bench(place: Path, *arguments: str, links: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command with the planted runtime as a plugin, and with a folder of wheels as a further index."""
    environment = {**os.environ, "BENCH_PATH": os.pathsep.join([str(place), str(Path.cwd())])}
    environment["BENCH_CACHE"] = str(place / "cache")
    if links is not None:
        environment["PIP_FIND_LINKS"] = str(links)
    return subprocess.run([*BENCH, *arguments], capture_output=True, text=True, env=environment, check=False)


def compared(place: Path, cell: str, versions: Sequence[str], budget: str, links: Path | None) -> str:
    """The verdict on one pair of versions, with its ratio; "failed" and the reason where there is none."""
    named = list(itertools.chain.from_iterable(("--with", version) for version in versions))
    most = ("--budget", budget, "--launches", str(MOST_LAUNCHES), "--format", "json")
    done = bench(place, "compare", cell, *named, *most, links=links)
    try:
        (change,) = json.loads(done.stdout)["cells"]
    except ValueError:
        return f"failed: {done.stderr.strip().splitlines()[-1:]}"
    if change["verdict"] is None:
        return f"failed: {change['note'] or change['after']}"
    return f"{change['verdict']} {change['ratio']:.4f} [{change['ratio_low']:.4f}, {change['ratio_high']:.4f}]"


def same(place: Path, count: int, budget: str) -> Iterator[bool]:
    """Whether each comparison of a version with itself was called right."""
    from importlib.metadata import version

    pairs = [(package, cell.format(task=task)) for task in TASKS for package, cell in SAME]
    for package, cell in itertools.islice(itertools.cycle(pairs), count):
        told = compared(place, cell, [f"{package}=={version(package)}"], budget, None)
        print(f"same {package} {cell}: {told}", flush=True)
        yield told.startswith(("noise", "undecided"))


def differ(place: Path, count: int, budget: str) -> Iterator[bool]:
    """Whether each comparison of two versions of which one does 3 % more was called right."""
    links = place / "wheels"
    wheel(links, "1.0", ROUNDS)
    wheel(links, "2.0", round(1.03 * ROUNDS))
    for number in range(count):
        ends = (f"{NAME}==1.0", f"{NAME}==2.0")
        turned = number % 2 == 1
        told = compared(place, CELL, ends[::-1] if turned else ends, budget, links)
        print(f"differ {'2.0 to 1.0' if turned else '1.0 to 2.0'}: {told}", flush=True)
        yield told.startswith("faster" if turned else "slower")


def bisect(place: Path, count: int, _budget: str) -> Iterator[bool]:
    """Whether each planted release was found."""
    draw = random.Random(5)
    for number in range(count):
        first_bad = draw.randrange(1, 8)
        links = place / f"releases-{first_bad}"
        for minor in range(8):
            wheel(links, f"{first_bad}.{minor}", round((1.05 if minor >= first_bad else 1.0) * ROUNDS))
        ends = ("--good", f"{first_bad}.0", "--bad", f"{first_bad}.7")
        done = bench(place, "bisect", NAME, *ends, "--cell", CELL, "--format", "json", links=links)
        try:
            found = json.loads(done.stdout)
        except ValueError:
            found = {"first_bad": None, "steps": [], "chance_of_error": 1.0, "error": done.stderr[-300:]}
        right = found["first_bad"] == f"{first_bad}.{first_bad}"
        told = f"{found['first_bad']} in {len(found['steps'])} steps, chance of error {found['chance_of_error']:.3f}"
        print(f"bisect {number}: {first_bad}.{first_bad} planted, found {told} {found.get('error', '')}", flush=True)
        yield right


def main() -> int:
    """Ask the questions; 1 where too many answers are wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of environments, wheels and results")
    parser.add_argument("--ask", choices=("same", "differ", "bisect"), action="append")
    parser.add_argument("--count", type=int, help="comparisons of each question; 40, 40 and 20 by default")
    parser.add_argument("--budget", default="40s", help="time for measuring a comparison")
    options = parser.parse_args()
    place = options.folder.resolve()
    (place / "runtimes").mkdir(parents=True, exist_ok=True)
    (place / "runtimes" / "planted.py").write_text(RUNTIME)
    failed = False
    questions = {"same": same, "differ": differ, "bisect": bisect}
    for question in options.ask or questions:
        count = options.count or {"same": 40, "differ": 40, "bisect": 20}[question]
        right = sum(questions[question](place, count, options.budget))
        allowed = 0 if question == "bisect" else round(0.05 * count)
        failed |= count - right > allowed
        print(f"{question}: {right} of {count} right; at most {allowed} may be wrong", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
