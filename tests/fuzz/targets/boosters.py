"""Files of XGBoost (JSON and UBJSON) and LightGBM: they are checked, opened and run once."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator

from bench.tasks import formats
from bench.tasks.options import Asked
from fuzz import mutations, workplace
from fuzz.boosters import TREES, seeds  # noqa: F401 (a part of every target)

INSTRUMENTED = (
    "bench.tasks.lightgbm_files",
    "bench.tasks.xgboost_files",
    "bench.tasks.trees",
    "bench.tasks.ubjson",
)
NUMBER = re.compile(rb"-?\d+(\.\d+)?(e-?\d+)?")
NUMBERS = (
    *(b"0", b"-1", b"1", b"2", b"3", b"99", b"1000000", b"2147483647", b"-2147483648", b"4294967296", b"1e300", b"nan"),
    *(b"inf", b"", b"x", b"0.5", b"-2", b"0 0", b"1.0", b"300000000e-8", b"1_0", b"\xd9\xa2", b"0\t", b"\r0", b"1  1"),
)


def check(content: bytes) -> None:
    name = "lightgbm" if content.startswith(b"tree") else "xgboost"
    with workplace.folder() as path:
        (path / "model").write_bytes(content)
        (path / "task").mkdir()
        formats.module_of(name).examine(path / "model", path / "task", Asked())


def changed(content: bytes, chance: random.Random, most_bytes: int) -> bytes:
    if not content.startswith(b"tree"):
        try:
            made = json.dumps(mutations.of_json(json.loads(content), chance)).encode()
        except (ValueError, RecursionError):
            return b""  # as of UBJSON, bytes change
        return made if len(made) <= most_bytes else b""
    for _ in range(chance.choice((1, 1, 2))):
        content = _changed_text(content, chance)
    if chance.random() < 0.8:
        content = fitting(content)
    return content if len(content) <= most_bytes else b""


def _changed_text(content: bytes, chance: random.Random) -> bytes:
    lines = content.split(b"\n")
    at = chance.randrange(len(lines))
    match chance.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(chance.randint(0, len(lines)), lines[at])
        case 2:
            lines[at] = lines[at][: chance.randint(0, len(lines[at]))]
        case _:
            numbers = list(NUMBER.finditer(lines[at]))
            if numbers:
                found = chance.choice(numbers)
                lines[at] = lines[at][: found.start()] + chance.choice(NUMBERS) + lines[at][found.end() :]
    return b"\n".join(lines)


def fitting(content: bytes) -> bytes:
    """A file of LightGBM whose header says how long its trees are."""
    head, mark, rest = content.partition(b"\nTree=")
    body, end, _ = rest.partition(TREES)
    if not mark or not end:
        return content
    sizes = [len(part) for part in re.split(rb"(?m)(?=^Tree=)", b"Tree=" + body + b"\n") if part]
    told = b"tree_sizes=" + b" ".join(b"%d" % size for size in sizes)
    return re.sub(rb"tree_sizes=[^\n]*", told, head) + mark + rest


def smaller(content: bytes) -> Iterator[bytes]:
    for less in mutations.smaller_lines(content):
        yield fitting(less)
    yield from mutations.smaller_bytes(content)
