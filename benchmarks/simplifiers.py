"""Which simplifier? onnxsim, onnxslim, onnxoptimizer, onnxscript and ONNX Runtime's own levels over files of others.

Each ONNX file of a package of `corpus.toml` is run as it is and after each simplifier, side by side in ONNX Runtime, in
a folder and with a cache of its own; a file that is over is not tried again. A simplifier wins a file where its copy is
shown to be faster than the file as it is (95 %, by the model of the measurement), and loses it where slower, or where
it fails or its outputs are others; a copy that was not timed, or not decided, before the time was up is no loss.
`--write` makes results/simplifiers/table.md.

Most files are simplified by ONNX Runtime when it loads them, too, so a simplifier gains what that misses.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import fnmatch
import json
import os
import re
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

import corpus
import instrument
import sweeps
from corpus_models import Entry

from bench.api.cell import Cell
from bench.measure import stats
from bench.measure.questions import Aims
from bench.records import folder
from bench.records.folder import Results
from bench.records.rows import Row

TABLE = sweeps.TOP / "results" / "simplifiers" / "table.md"
TRIED = ("onnxsim", "onnxslim", "onnxoptimizer", "onnxscript", "ort-basic", "ort-extended", "ort-all")
PACKAGES = ("onnxruntime", "onnxsim", "onnxslim", "onnxoptimizer", "onnxscript")
RAW = "raw"
RIGHT = ("exact", "close")
BUDGET, STEP_LIMIT, LIMIT_S = "45s", "60s", 1200
"""For timing a file's copies; for each step, of which a simplifier that hangs fails; and for a file's whole run."""
FASTER, SLOWER, ALIKE, UNDECIDED, UNTIMED = "faster", "slower", "as fast", "undecided", "not timed"
WRONG, FAILED, REFUSED = "other outputs", "failed", "refused"
ENDS = (FASTER, SLOWER, ALIKE, UNDECIDED, UNTIMED, WRONG, FAILED, REFUSED)
MARGIN = Aims().margin
VERDICTS = {stats.FASTER: FASTER, stats.SLOWER: SLOWER, stats.NOISE: ALIKE, stats.UNDECIDED: UNDECIDED}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Copy:
    """What a simplifier made of a file.

    Attributes:
        end: one of `ENDS`.
        ratio: latency over that of the file as it is, with its interval; None where it was not timed beside it.
        nodes, size: numbers of nodes and bytes over those of the file as it is; None where no copy was made.
        reason: why there is none.
    """

    end: str
    ratio: tuple[float, float, float] | None = None
    nodes: float | None = None
    size: float | None = None
    reason: str = ""


def tried(entry: Entry, place: Path) -> dict[str, Copy] | None:
    """The copies of a file by simplifier, made and timed now unless they are known; None where it does not run."""
    label, own = entry.name.replace("/", "_"), place / "simplified"
    over, results = own / "over" / f"{label}.json", own / "results" / label
    if not over.is_file():
        cells = [f"*/*/{variant}/onnxruntime/cpu/b1t1" for variant in (RAW, *TRIED)]
        command = [str(sweeps.BENCH), "run", *cells, "--model", str(entry.path), *entry.options]
        command += ["--results", str(results), "--budget", BUDGET, "--timeout", STEP_LIMIT]
        environment = {**os.environ, "BENCH_CACHE": str(own / "cache" / label), "BENCH_PATH": ""}
        over.parent.mkdir(parents=True, exist_ok=True)
        with over.with_suffix(".log").open("w") as log:
            try:
                ran = subprocess.run(command, cwd=sweeps.TOP, env=environment, stdout=log, stderr=log, timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                raise SystemExit(f"{entry.name}: took longer than {LIMIT_S} s; {over.with_suffix('.log')}") from None
            if ran.returncode not in (0, 1):
                raise SystemExit(f"{entry.name}: `bench run` failed; {over.with_suffix('.log')} has what it printed")
        copies = copies_of(folder.read(results)) if any(results.glob("*/*.jsonl")) else None
        stored = None if copies is None else {name: dataclasses.asdict(copy) for name, copy in copies.items()}
        over.write_text(json.dumps(stored))
    known = json.loads(over.read_text())
    return None if known is None else {name: Copy(**fields) for name, fields in known.items()}


def copies_of(stored: Results) -> dict[str, Copy] | None:
    """The copies of a file by simplifier; None where the file as it is was not timed."""
    rows = {Cell.from_path(row.cell).variant: row for row in stored.rows if "/onnxruntime/cpu/" in row.cell}
    raw = rows.get(RAW)
    if raw is None or raw.latency_p50_ns is None:
        return None
    missing = Copy(end=UNTIMED, reason="there is no record of it")
    return {name: copy_of(stored, rows[name], raw) if name in rows else missing for name in TRIED}


def copy_of(stored: Results, row: Row, raw: Row) -> Copy:
    """What a simplifier made of a file, by their rows."""
    if row.status != "ok":
        return Copy(end=REFUSED if row.status == "skipped" else FAILED, reason=row.reason or "")
    mine, own = (stored.records[each.cell].artifact for each in (row, raw))
    assert mine is not None
    assert own is not None
    nodes, own_nodes = (sum((facts.operators or {}).values()) for facts in (mine, own))
    copy = Copy(end=ALIKE, nodes=nodes / own_nodes if own_nodes else None, size=mine.size_bytes / own.size_bytes)
    if row.fidelity not in RIGHT:
        return dataclasses.replace(copy, end=WRONG, reason=f"outputs are {row.fidelity}")
    timed, base = (each.same_as or each.cell for each in (row, raw))
    if timed == base:  # the same graph with the same weights
        return dataclasses.replace(copy, ratio=(1.0, 1.0, 1.0))
    compared = stored.measurements.between(timed, base)
    if compared is None or compared.ratio is None:
        return dataclasses.replace(copy, end=UNTIMED)
    ratio = compared.ratio
    end = VERDICTS[stats.verdict(ratio, margin=stored.margin)]
    return dataclasses.replace(copy, end=end, ratio=(ratio.value, ratio.low, ratio.high))


def table(found: Mapping[str, Mapping[str, Copy]]) -> str:
    """For each simplifier the wins and losses, and the medians and ranges of what it changes, as Markdown."""
    lines = [
        f"{len(found)} ONNX files that others made, as they are and after each simplifier, in ONNX Runtime.",
        f"{', '.join(f'{package} {metadata.version(package)}' for package in PACKAGES)}.",
        "",
        f"| simplifier | {' | '.join(ENDS)} | latency | nodes | size |",
        f"| :-- |{' --: |' * (len(ENDS) + 3)}",
    ]
    for name in TRIED:
        copies = [copies[name] for copies in found.values() if name in copies]
        ends = collections.Counter(copy.end for copy in copies)
        counts = [str(ends[end]) for end in ENDS]
        latencies = [copy.ratio[0] for copy in copies if copy.ratio]
        nodes, sizes = ([value for copy in copies if (value := getattr(copy, key))] for key in ("nodes", "size"))
        lines.append(f"| {' | '.join([f'`{name}`', *counts, *map(spread, (latencies, nodes, sizes))])} |")
    ratios = [copy.ratio for copies in found.values() for copy in copies.values() if copy.ratio is not None]
    timed = sum(low < high for _, low, high in ratios)
    lines += [
        "",
        "Latency, nodes and size: over those of the file as it is, median (least to most).",
        f"A copy is `as fast` where the whole 95 % interval of its ratio lies within {MARGIN:.0%} of 1.",
        f"Of {timed} intervals, up to {timed / 40:.0f} would show a gain and as many a loss by chance alone.",
        "",
    ]
    lines += ["| file | simplifier | what | ratio |", "| :-- | :-- | :-- | --: |"]
    for file, own in found.items():
        for name, copy in own.items():
            if copy.end not in (ALIKE, UNDECIDED, UNTIMED, REFUSED):
                ratio = "" if copy.ratio is None else "{:.3f} [{:.3f}, {:.3f}]".format(*copy.ratio)
                reason = re.sub(r"\s+", " ", copy.reason).replace("|", "/")[:120]
                lines.append(f"| {file} | `{name}` | {copy.end}{': ' * bool(reason)}{reason} | {ratio} |")
    return "\n".join(lines) + "\n"


def spread(values: Sequence[float]) -> str:
    """`0.98 (0.71 to 1.02)`; a dash without values."""
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})" if values else "-"


def main() -> None:
    """Try all files, print a line for each, and the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the files and of what became of them; the same goes on")
    parser.add_argument("--only", default="*", help="files whose names match, such as 'keras/*'")
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.relative_to(sweeps.TOP)}")
    arguments = parser.parse_args()
    if arguments.write and arguments.only != "*":
        parser.error("a table of some of the files is not to be published: --write without --only")
    place = arguments.folder.resolve()
    found = {}
    for entry in corpus.of_packages(place / "packages", arguments.only.partition("/")[0]):
        if entry.path.suffix != ".onnx" or not fnmatch.fnmatch(entry.name, arguments.only):
            continue
        copies = tried(entry, place)
        if copies is None:
            print(f"{entry.name}: it does not run as it is", flush=True)
            continue
        found[entry.name] = copies
        print(f"{entry.name}: {', '.join(f'{name} {copy.end}' for name, copy in copies.items())}", flush=True)
    text = table(found)
    print(text)
    wrong = [f"{file}: {name}" for file, copies in found.items() for name, copy in copies.items() if copy.end == WRONG]
    print(f"{len(wrong)} copies have other outputs: {', '.join(wrong)}")
    instrument.finish([] if found else ["no file was tried"])
    if arguments.write:
        TABLE.parent.mkdir(exist_ok=True)
        TABLE.write_text(text)


if __name__ == "__main__":
    main()
