"""Planted slowdowns and errors in ten models: does `bench blame` name the right node, and none where nothing differs?

    python benchmarks/blamed.py FOLDER [--only GLOB] [--budget 5m]

Three slowdowns and one error are planted in each model (`plugins/variants/plant.py`), and four times it is held against
itself. Five models are those of the project, and five are files of others (`corpus.py`). What each run said is kept in
the folder, and the script goes on where it was stopped. The scripts of reproducers are run from their folders alone.

The planted node must be first in 28 of 30 slowdowns and in all 10 errors, in a part of few nodes. In 26 of 30, what is
blamed must explain 80 % of the difference, with an interval that holds all of it: one in 20 misses it by chance. The
reproducer must show it alone in 26 of 30, and no more than 2 of 40 runs against itself may blame anything or fail; no
run may take longer than 5 minutes.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import itertools
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import corpus
from corpus_models import Entry

from bench.api.loading import load_module

TOP = Path(__file__).parents[1]
PLUGINS = Path(__file__).with_name("plugins")
PLANT = PLUGINS / "variants" / "plant.py"
OWN = ("super_resolution", "crnn", "albert", "albert_base", "codegen_lm")
OTHERS = (
    "rapidocr-onnxruntime/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx",
    "ddddocr/common.onnx",
    "ddddocr/common_det.onnx",
    "nudenet/320n.onnx",
)
SLOWDOWNS = ("kernel", "unfuse", "transpose")
IN_PLACE_OF = {"unfuse": "kernel1", "transpose": "kernel2"}
"""What is planted in a model that takes no such difference."""
ERRORS = ("precision", "error")
NUM_EQUAL = 4
CELL = "{}/torch/torch_onnx/{}/onnxruntime/cpu/b1t1"
SHOWN = re.compile(r"B over A: (\S+) \[(\S+), (\S+)\]; largest error (\S+) of")
LEAST_RIGHT, LEAST_EXPLAINED, LEAST_SHOWN, MOST_BLAMED, LEAST_SHARE, MOST_S = 28, 26, 26, 2, 0.8, 300
MOST_NODES = 20
"""Nodes of a part that names one of them."""
_CRASHED = 2
"""Least exit code of a command that failed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One run.

    Attributes:
        name: such as `crnn-kernel0`.
        kind: what is planted; `equal` for nothing.
        arguments: of `bench blame`.
        planted: name of the node at which something is planted; None for nothing.
    """

    name: str
    kind: str
    arguments: tuple[str, ...]
    planted: str | None


def planted_file(source: Path, kind: str, number: int, target: Path) -> str | None:
    """Plant a difference in a file, and return the name of the node; None where the model takes none."""
    import onnx

    plant = load_module(PLANT)
    model = onnx.load(source)
    planter = plant.Planter(model)
    place = next(itertools.islice(planter.places(kind), number, None), None)
    if place is None:
        return None
    name = str(place.name)
    planter.plant(kind, place)
    del model.graph.value_info[:]
    onnx.save(model, target)
    return name


def named(source: Path, target: Path) -> None:
    """A copy of a model whose nodes all have names."""
    import onnx

    model = onnx.load(source)
    for number, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{number}"
    onnx.save(model, target)


def plain_files(place: Path) -> Iterator[tuple[str, Path, Sequence[str]]]:
    """The name of each model, its file, and the options that a command about it takes."""
    for name in OWN:
        target = place / "plain" / f"{name}.onnx"
        if not target.is_file():
            from bench.api.cell import Cell
            from bench.measure.limits import Limits
            from bench.pipeline import prepare

            cell = Cell.from_path(CELL.format(name, "raw"))
            named(prepare.artifact_of(cell, Limits.of(step_s=None, memory_bytes=None)).path, target)
        yield name, target, ()
    for only in OTHERS:
        entry: Entry = next(corpus.entries(place, only))
        name = only.partition("/")[2].removesuffix(".onnx").replace(".", "_")
        target = place / "plain" / f"{name}.onnx"
        if not target.is_file():
            named(entry.path, target)
        yield name, target, entry.options


def cases(place: Path) -> Iterator[Case]:
    """All runs: an error, the slowdowns and the equal pairs of each model."""
    (place / "plain").mkdir(parents=True, exist_ok=True)
    for index, (model, plain, options) in enumerate(plain_files(place)):
        chosen = [f"{kind}0" for kind in (*SLOWDOWNS, ERRORS[index % 2])]
        for which in chosen:
            target = place / "plain" / f"{model}-{which}.onnx"
            planted = planted_file(plain, which[:-1], int(which[-1]), target)
            if planted is None:
                instead = IN_PLACE_OF.get(which[:-1], "error0")
                planted = planted_file(plain, instead[:-1], int(instead[-1]), target)
            more = ("--drift",) if which[:-1] in ERRORS else ()
            arguments = (str(plain), str(target), *options, *more)
            yield Case(name=f"{model}-{which}", kind=which[:-1], arguments=arguments, planted=planted)
        copy = place / "plain" / f"{model}-equal.onnx"
        copy.write_bytes(plain.read_bytes())
        for number in range(NUM_EQUAL):
            arguments = (str(plain), str(copy), *options)
            yield Case(name=f"{model}-equal{number}", kind="equal", arguments=arguments, planted=None)


def outcome(case: Case, place: Path, budget: str) -> dict[str, Any]:
    """What a run said, from the folder or now."""
    kept_at = place / "over" / f"{case.name}.json"
    if kept_at.is_file():
        return dict(json.loads(kept_at.read_text()))
    kept_at.parent.mkdir(exist_ok=True)
    environment = {**os.environ, "BENCH_CACHE": str(place / "cache"), "PYTHONPATH": str(TOP)}
    program = [sys.executable, "-c", "from bench.cli.main import main; main()", "blame", *case.arguments]
    options = ["--format", "json", "--budget", budget, "--output", str(place / "reproducers" / case.name)]
    begin = time.monotonic()
    done = subprocess.run([*program, *options], env=environment, text=True, capture_output=True, cwd=TOP)
    taken_s = time.monotonic() - begin
    if done.returncode >= _CRASHED or not done.stdout.startswith("{"):
        answer: dict[str, Any] = {"failure": done.stderr.splitlines()[-1] if done.stderr else str(done.returncode)}
    else:
        answer = {"answer": json.loads(done.stdout)}
        if folder := answer["answer"]["reproducer"]:
            answer["shown"] = alone(Path(folder))
    answer |= {"taken_s": taken_s, "kind": case.kind, "planted": case.planted}
    kept_at.write_text(json.dumps(answer, indent=1))
    return answer


def alone(folder: Path) -> list[float] | None:
    """The ratio with its interval and the largest error that the script of a reproducer prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BENCH"))}
    done = subprocess.run([sys.executable, "reproduce.py"], cwd=folder, env=environment, text=True, capture_output=True)
    shown = SHOWN.match(done.stdout)
    return None if shown is None else [float(text) for text in shown.groups()]


def is_right(answer: Mapping[str, Any]) -> bool:
    """Whether the planted node is in the part that is named first, which is a small one.

    Of an error, the part that shows it alone may have more nodes than the one that is named.
    """
    said = answer.get("answer") or {}
    if "drifted" in said:
        drifted = said["drifted"]
        is_core = bool(drifted["core"]) and drifted["core"] == drifted["part"]
        named = str(said["name"]).partition(" (")[0]
        return named == answer["planted"] or (is_core and answer["planted"] in _few(said["nodes"][0]))
    return bool(said.get("culprits")) and answer["planted"] in _few(said["culprits"][0]["nodes"][0])


def _few(nodes: Sequence[str]) -> Sequence[str]:
    """The nodes of a part; none of one that is too large to name anything."""
    return nodes if len(nodes) <= MOST_NODES else ()


def is_explained(answer: Mapping[str, Any]) -> bool:
    """Whether what is blamed explains most of the difference, with an interval that holds all of it."""
    lines = [each["line"]["share"] for each in (answer.get("answer") or {}).get("culprits", ())]
    if not lines:
        return False
    low, high = (
        sum(none if share[end] is None else share[end] for share in lines)
        for end, none in (("low", -math.inf), ("high", math.inf))
    )
    return sum(share["value"] for share in lines) >= LEAST_SHARE and low <= 1 <= high


def is_shown(answer: Mapping[str, Any]) -> bool:
    """Whether the reproducer shows it alone."""
    shown = answer.get("shown")
    return shown is not None and shown[1] > 1


def is_blamed(answer: Mapping[str, Any]) -> bool:
    """Whether something is blamed; a run that failed shows no restraint, so it counts."""
    return "failure" in answer or bool((answer.get("answer") or {}).get("culprits"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="*", help="glob over names of runs, such as crnn-*")
    parser.add_argument("--budget", default="4.5m")
    arguments = parser.parse_args()
    place = arguments.folder.resolve()
    os.environ["BENCH_CACHE"] = str(place / "cache")
    answers: dict[str, dict[str, Any]] = {}
    for case in cases(place):
        if fnmatch.fnmatch(case.name, arguments.only):
            answers[case.name] = answer = outcome(case, place, arguments.budget)
            said = answer.get("failure") or f"right {is_right(answer)}, explained {is_explained(answer)}, shown "
            said = said if "failure" in answer else f"{said}{is_shown(answer)}, blamed {is_blamed(answer)}"
            print(f"{case.name}: {said}; {answer['taken_s']:.0f} s", flush=True)
    report(list(answers.values()))


def report(answers: Sequence[Mapping[str, Any]]) -> None:
    """Print the counts, and exit with 1 where one of them is too low or too high."""
    slow = [answer for answer in answers if answer["kind"] in SLOWDOWNS]
    wrong = [answer for answer in answers if answer["kind"] in ERRORS]
    equal = [answer for answer in answers if answer["kind"] == "equal"]
    counts = {
        f"right node first in {{}} of {len(slow)} slowdowns": sum(map(is_right, slow)),
        f"explained in {{}} of {len(slow)}": sum(map(is_explained, slow)),
        f"shown by the reproducer alone in {{}} of {len(slow)}": sum(map(is_shown, slow)),
        f"right node first in {{}} of {len(wrong)} errors": sum(map(is_right, wrong)),
        f"something blamed in {{}} of {len(equal)} runs against itself": sum(map(is_blamed, equal)),
    }
    for text, count in counts.items():
        print(text.format(count))
    right, explained, shown, errors, blamed = counts.values()
    longest = max((answer["taken_s"] for answer in answers), default=0.0)
    print(f"longest run {longest:.0f} s")
    passed = right >= LEAST_RIGHT and shown >= LEAST_SHOWN and errors == len(wrong) and blamed <= MOST_BLAMED
    passed = passed and explained >= LEAST_EXPLAINED
    if not passed or longest > MOST_S:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
