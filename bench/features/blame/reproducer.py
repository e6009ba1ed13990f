"""A folder that shows a difference alone: a small model, its inputs, scripts that need only the runtime, and a text."""

from __future__ import annotations

import dataclasses
import json
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.api.errors import InputError
from bench.features.blame import reproducer_script
from bench.features.blame.parts import Cut
from bench.features.blame.sides import Pair, Side
from bench.measure import machine, processors
from bench.measure.stats import Estimate
from bench.pipeline import environments, provenance
from bench.plugins import catalog
from bench.records.store import write_atomically
from bench.report import writing

MOST_NODES = 20
"""Nodes of a reproducer that an issue can be read with; one of more says so."""
_PYTHON = "python"
"""The name of the interpreter among versions."""
_MARK = "reproduce.py"
"""The file by which a folder is known as one that may be written anew."""
_WRITTEN = ("part.onnx", "part_[ab].onnx", "inputs.npz", "inputs_[ab].npz", "part_*.onnx.data", "public_*.onnx.data")
"""The files in it of which not all are written each time."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """What a reproducer shows.

    Attributes:
        title: one line, such as `Resize_12 (Resize): 1.3 times as slow`.
        ratio: latency under B over that under A, of the part alone; None of a drift.
        error: largest difference of its outputs over their largest magnitude; None of a slowdown.
        num_nodes: nodes of the part under A, and under B.
        operators: number of nodes of each operator, likewise.
        texts: further lines, such as of the whole model.
    """

    title: str
    ratio: Estimate | None = None
    error: float | None = None
    num_nodes: tuple[int, int]
    operators: tuple[Mapping[str, int], Mapping[str, int]]
    texts: tuple[str, ...] = ()


def folder_name(title: str) -> str:
    """A name of a folder for a title, of plain characters."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", title).strip("-.")[:60] or "part"


def write(folder: Path, pair: Pair, cuts: tuple[Cut, Cut], finding: Finding) -> Path:
    """Write the reproducer of a part.

    Args:
        folder: the folder, which is made, or is one that was written so before.
        pair: the two sides.
        cuts: the part's files on both sides.
        finding: what it shows.

    Raises:
        InputError: the folder has other files, or a runtime can be used by no script without this package.
    """
    codes = [_code(side) for side in pair.sides]
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).is_file():
        raise InputError(f"{folder} has other files; name another folder with --output")
    folder.parent.mkdir(parents=True, exist_ok=True)
    whole = folder.with_name(f".{folder.name}.part")  # so that a folder never has some of the files alone
    shutil.rmtree(whole, ignore_errors=True)
    whole.mkdir()
    try:
        _write_files(whole, codes, cuts)
        write_atomically(whole / "environment.json", json.dumps(_environment(pair), indent=2) + "\n")
        write_atomically(whole / "issue.md", issue(pair, finding))
        _move(whole, folder)
    finally:
        shutil.rmtree(whole, ignore_errors=True)
    return folder


def _write_files(folder: Path, codes: Sequence[str], cuts: tuple[Cut, Cut]) -> None:
    """The models, their inputs and the scripts."""
    is_one = cuts[0] == cuts[1]
    settings = []
    for letter, cut in zip("ab", cuts, strict=True):
        model, inputs = ("part.onnx", "inputs.npz") if is_one else (f"part_{letter}.onnx", f"inputs_{letter}.npz")
        for source, name in ((cut.model, model), (cut.feeds, inputs)):
            shutil.copyfile(source, folder / name)
        data = cut.model.with_name(f"{cut.model.name}.data")
        if data.exists():  # the model names it, so it keeps its name
            shutil.copyfile(data, folder / data.name)
        outputs = [spec["name"] for spec in cut.outputs or ()]
        settings.append({"model": model, "inputs": inputs, "outputs": outputs})
    for letter, code, setting in zip("ab", codes, settings, strict=True):
        write_atomically(folder / f"run_{letter}.py", reproducer_script.of_side(code, setting))
    write_atomically(folder / _MARK, reproducer_script.comparing())


def _move(whole: Path, folder: Path) -> None:
    """Put the files of a folder into another, which is new, or has an earlier reproducer and what its reader added."""
    if not folder.exists():
        whole.rename(folder)
        return
    for pattern in _WRITTEN:  # an earlier one may have the model's own weights in files of other names
        for path in folder.glob(pattern):
            path.unlink()
    for path in sorted(whole.iterdir(), key=lambda path: path.name == _MARK):
        path.replace(folder / path.name)


def refusal(pair: Pair) -> str | None:
    """Why no reproducer can be written; None where it can be."""
    try:
        for side in pair.sides:
            _code(side)
    except InputError as error:
        return f"no reproducer: {error}"
    return None


def _code(side: Side) -> str:
    """Source that runs a part as the side's runtime does.

    Raises:
        InputError: there is none.
    """
    cell = side.cell
    code = catalog.runtime(cell.runtime).code(provider=str(cell.provider), threads=cell.threads)
    if code is None:
        raise InputError(f"{cell.runtime} on {cell.provider} runs in no script of its own")
    return code


def _environment(pair: Pair) -> dict[str, object]:
    """The machine and the versions of both sides' packages."""
    facts = machine.describe()
    versions = {name: provenance.versions_run(side.cell) for name, side in zip("AB", pair.sides, strict=True)}
    return {"machine": facts, "python": platform.python_version(), "versions": versions}


def requirements(side: Side) -> list[str]:
    """What the script of a side needs, as pip takes it."""
    versions = provenance.versions_run(side.cell)
    return [f"{name}=={version}" for name, version in versions.items() if version and name != _PYTHON] + ["numpy"]


def issue(pair: Pair, finding: Finding) -> str:
    """A text for an issue, in Markdown."""
    escaped = writing.escape_markdown
    lines = [f"# {escaped(finding.title)}", ""]
    if finding.ratio is not None:
        interval = writing.interval(finding.ratio)
        lines.append(f"The model in this folder takes {interval} times as long under B as under A (95 % interval).")
    if finding.error is not None:
        lines.append(
            f"The outputs of the model in this folder differ by {finding.error:.3g} of their largest magnitude under B."
        )
    lines += ["", *(escaped(text) for text in finding.texts), ""]
    for letter, side, number, operators in zip("AB", pair.sides, finding.num_nodes, finding.operators, strict=True):
        counted = ", ".join(f"{count} {name}" for name, count in operators.items())
        nodes = f"{number} node{'s' * (number != 1)}"
        many = f", more than the {MOST_NODES} that are read at a glance" if number > MOST_NODES else ""
        lines.append(f"- {letter}: {escaped(_without_folder(side.name))}; {nodes}{many}: {escaped(counted)}")
    lines += ["", "## To reproduce", "", "```", *_commands(pair), "```", "", "## Environment", ""]
    facts = machine.describe()
    lines.append(f"- {escaped(processors.description(facts))}, {facts['system']}")
    for letter, side in zip("AB", pair.sides, strict=True):
        versions, threads = provenance.versions_run(side.cell), side.cell.threads
        texts = [f"{name} {version}" for name, version in versions.items()]
        lines.append(f"- {letter}: {escaped(', '.join(texts))}, {threads} thread{'s' * (threads != 1)}")
    return "\n".join(lines) + "\n"


def _without_folder(name: str) -> str:
    """The name of a side; of a file, without the folder that it lies in here, which is nobody's business."""
    return Path(name).name if Path(name).is_file() else name


def _commands(pair: Pair) -> list[str]:
    """How to run the script: with one environment, or with two where the versions differ."""
    needs = [requirements(side) for side in pair.sides]
    if needs[0] == needs[1] and not any(
        environments.is_elsewhere("runtimes", each.cell.runtime) for each in pair.sides
    ):
        return [f"pip install {' '.join(needs[0])}", f"python {_MARK}"]
    lines = []
    for letter, names, side in zip("ab", needs, pair.sides, strict=True):
        version = str(provenance.versions_run(side.cell).get(_PYTHON) or platform.python_version())
        python = f"python{'.'.join(version.split('.')[:2])}"
        lines += [f"{python} -m venv {letter} && {letter}/bin/pip install {' '.join(names)}"]
    return [*lines, f"python {_MARK} a/bin/python b/bin/python"]
