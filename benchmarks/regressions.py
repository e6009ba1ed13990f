"""Releases of a runtime that made models slower: does `bench bisect --blame` name the release and the operator?

    python benchmarks/regressions.py FOLDER [--only GLOB] [--report]

Each ONNX file of a package of `corpus.toml`, and two quantized models of the project, is measured on an old release and
on a later one, side by side (`bench compare --with`). Where the later one is clearly slower, by `LEAST` or more,
`bench bisect --blame` looks for the release and for the part of the model that did it, and writes a reproducer. What
each step said is kept in `over/` of the folder, and the script goes on where it was stopped; `--report` measures
nothing. Two regressions with a reproducer are wanted.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import corpus
import instrument

TOP = Path(__file__).parents[1]
PROGRAM = (sys.executable, "-c", "from bench.cli.main import main; main()")
OWN = ("albert", "albert_base")
OWN_CELL = "{}/torch/torch_onnx/int8_dynamic/{}/cpu/b1t1"
CELL = "*/*/raw/{}/cpu/b1t1"
PAIRS = (
    ("onnxruntime", "1.20.0", "1.27.0"),
    ("onnxruntime", "1.20.0", "1.31.1"),
    ("openvino", "2025.0.0", "2026.4.1"),
)
"""A package, its old release and the later one."""
LEAST = 1.05
BUDGET, BISECT_BUDGET = "40s", "15m"
WANTED = 2
SLOWER = "slower"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A model on two releases.

    Attributes:
        model: a name of the corpus, or one of `OWN`.
        model_options: the file with the options that a command about it takes; empty for the project's own.
        package, old, new: the releases.
    """

    model: str
    model_options: Sequence[str]
    package: str
    old: str
    new: str

    @property
    def name(self) -> str:
        return f"{self.model.replace('/', '_')}-{self.package}-{self.new}"

    @property
    def cell(self) -> str:
        return CELL.format(self.package) if self.model_options else OWN_CELL.format(self.model, self.package)


def cases(place: Path, only: str) -> Iterator[Case]:
    """The models on each pair of releases."""
    models: list[tuple[str, Sequence[str]]] = [(name, ()) for name in OWN]
    for entry in corpus.of_packages(place / "corpus", "*"):
        if entry.path.suffix == ".onnx":
            models.append((entry.name, ("--model", str(entry.path), *entry.options)))
    for package, old, new in PAIRS:
        for model, options in models:
            case = Case(model=model, model_options=options, package=package, old=old, new=new)
            if fnmatch.fnmatch(case.name, only):
                yield case


def compared(case: Case, place: Path) -> Mapping[str, Any]:
    """The cell of `bench compare` over both releases; of a command that failed, its last line."""
    releases = [f"--with={case.package}=={version}" for version in (case.old, case.new)]
    said = run(["compare", case.cell, *case.model_options, *releases, "--budget", BUDGET, "--format", "json"], place)
    if "failure" in said:
        return said
    cells = [cell for cell in said["cells"] if cell["ratio"] is not None]
    return cells[0] if cells else {"failure": "nothing was compared"}


def bisected(case: Case, cell: str, place: Path) -> Mapping[str, Any]:
    """What `bench bisect --blame` says, and what the reproducer shows alone."""
    home = place / "reproducers" / case.name
    home.mkdir(parents=True, exist_ok=True)
    command = ["bisect", case.package, "--good", case.old, "--bad", case.new, "--cell", cell, "--blame"]
    said = dict(run([*command, "--budget", BISECT_BUDGET, "--format", "json"], place, home))
    said["reproducers"] = sorted(path.parent.relative_to(home).as_posix() for path in home.rglob("reproduce.py"))
    return said


def run(arguments: Sequence[str], place: Path, home: Path = TOP) -> dict[str, Any]:
    """The JSON that a command prints; of one that failed, its last line as `failure`."""
    environment = {**os.environ, "BENCH_CACHE": str(place / "cache"), "BENCH_PATH": "", "PYTHONPATH": str(TOP)}
    done = subprocess.run(
        [*PROGRAM, *arguments], env=environment, text=True, capture_output=True, cwd=home, check=False
    )
    begin = done.stdout.find("{")
    if begin < 0:
        return {"failure": done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"}
    content: dict[str, Any] = json.loads(done.stdout[begin:])
    return content


def is_slower(said: Mapping[str, Any]) -> bool:
    """Whether the later release is clearly slower, and by enough."""
    return said.get("verdict") == SLOWER and said["ratio"] >= LEAST


def outcome(case: Case, place: Path) -> dict[str, Any]:
    """What the steps said of a case now; it is kept in the folder."""
    begin = time.monotonic()
    said: dict[str, Any] = {"compared": compared(case, place)}
    if is_slower(said["compared"]):
        said["bisected"] = bisected(case, plain(said["compared"]["cell"]), place)
    said |= {"taken_s": time.monotonic() - begin, "commit": instrument.commit()}
    instrument.keep(file_of(case, place), said)
    return said


def plain(cell: str) -> str:
    """The path of a cell without the version of its runtime."""
    return "/".join(part.partition("@")[0] for part in cell.split("/"))


def file_of(case: Case, place: Path) -> Path:
    """Where the folder has what was said of a case."""
    return place / "over" / f"{case.name}.json"


def line(case: Case, said: Mapping[str, Any]) -> str:
    """A case in a line of the table."""
    first, second = said["compared"], said.get("bisected", {})
    ratio = "{ratio:.3f} [{ratio_low:.3f}, {ratio_high:.3f}]".format(**first) if first.get("ratio_low") else "-"
    more = second.get("failure") or f"{second.get('first_bad') or ''} {second.get('blame', '')}".strip()
    return f"{case.name:<60} {ratio:>24} {first.get('verdict') or '':<10} {first.get('failure', '') or more}".rstrip()


def main() -> None:
    """Measure what is not measured yet, and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="*", help="glob over names of cases, such as '*-openvino-*'")
    parser.add_argument("--report", action="store_true", help="measure nothing, and show what the folder has")
    arguments = parser.parse_args()
    place = arguments.folder.resolve()
    place.mkdir(parents=True, exist_ok=True)
    named = 0
    for case in cases(place, arguments.only):
        if not file_of(case, place).is_file():
            if arguments.report:
                continue
            outcome(case, place)
        said = json.loads(file_of(case, place).read_text())
        print(line(case, said), flush=True)
        named += bool(said.get("bisected", {}).get("reproducers"))
    print(f"{named} regressions with a reproducer")
    if named < WANTED:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
