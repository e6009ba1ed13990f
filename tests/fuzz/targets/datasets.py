"""Data sets: an `.npz` or `.npy` file, alone and in a folder of samples, and the targets within."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from bench.api import TensorSpec
from bench.tasks import dataset
from bench.tasks.metric_options import Wanted
from bench.tasks.targets import judge_of
from fuzz import mutations, workplace
from fuzz.watch import each

INSTRUMENTED = ("bench.api.array_files", "bench.tasks.dataset", "bench.tasks.targets", "bench.tasks.rules")
INPUTS = (TensorSpec(name="x", dtype="float32", shape=("N", 2)), TensorSpec(name="words", dtype="str", shape=("N",)))
OUTPUTS = (
    TensorSpec(name="y", dtype="float32", shape=("N", 3)),
    TensorSpec(name="p", dtype="float32", shape=("N",)),
    TensorSpec(name="open", dtype="float32", shape=("N", "?")),
    TensorSpec(name="label", dtype="int64", shape=("N",)),
    TensorSpec(name="word", dtype="str", shape=("N",)),
)
OBSERVED = tuple(
    {
        "y": np.arange(3 * rows, dtype=np.float32).reshape(rows, 3) % 5,
        "p": np.linspace(0, 1, rows, dtype=np.float32),
        "open": np.ones((rows, 2), np.float32),
        "label": np.arange(rows) % 3 - 1,
        "word": np.array(["a", "b"] * rows)[:rows],
    }
    for rows in (1, 4)
)
"""Outputs of a model for its first samples."""
WANTED = (("accuracy@0.5", None), ("rmse", None), (None, "y"), ("accuracy", "label"))
MAGIC = b"\x93NUMPY"
WORDS = (
    "<f4",
    ">i8",
    "|b1",
    "<U0",
    "<U2",
    "|S3",
    "|O",
    "|V4",
    "<M8[s]",
    "<c8",
    "[('a','<f4')]",
    "('<f4',(2,))",
    "x" * 50,
)
SHAPES = (
    "()",
    "(2,)",
    "(2,2)",
    "(0,9999999999)",
    "(-1,2)",
    "(99999999999,64)",
    "(2**9,)",
    "(2L,)",
    "(True,)",
    "2",
    "(2,'x')",
)
"""What headers of arrays say of types and shapes."""


def seeds() -> Iterator[bytes]:
    x, words = np.arange(8, dtype=np.float32).reshape(4, 2), np.array(["a", "bc", "d", ""])
    for store in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        store(file, x=x, words=words, targets=np.array([0, 1, 2, 1]))
        yield file.getvalue()
    for array in (x, words, np.asfortranarray(x)):
        file = io.BytesIO()
        np.save(file, array)
        yield file.getvalue()


def check(content: bytes) -> None:
    with workplace.folder() as path:
        name = "a.npy" if content.startswith(MAGIC) else "a.npz"
        samples = path / "samples"
        samples.mkdir()
        for file in (path / name, samples / name, samples / f"b{Path(name).suffix}"):
            file.write_bytes(content)
        each(lambda: _used(samples), lambda: _used(path / name) if name == "a.npz" else None)


def _used(path: Path) -> None:
    """Read a data set, fit it to the inputs of a model, and choose what judges its targets."""
    arrays, targets = dataset.read(path)
    each(
        lambda: dataset.fitted(arrays, INPUTS, batched=True, what="the data set"),
        lambda: dataset.fitted(arrays, INPUTS[:1], batched=True, what="the data set"),
        *(lambda seen=seen: None if targets is None else _judged(targets, seen) for seen in (None, *OBSERVED)),
    )


def _judged(targets: np.ndarray, seen: dict[str, np.ndarray] | None) -> None:
    """Choose how targets are compared, whatever the user names."""

    def observe(names: Collection[str]) -> dict[str, np.ndarray] | None:
        fits = seen is not None and len(seen["y"]) <= len(targets)
        return {name: seen[name] for name in names} if fits and seen is not None else None

    def judged(wanted: Wanted) -> None:
        judge_of(targets, OUTPUTS, batched=True, sizes={}, observe=observe, wanted=wanted)

    if targets.ndim:  # as the reader of data sets requires
        each(*(lambda named=named: judged(Wanted.of(*named)) for named in ((None, None), *WANTED)))


def changed(content: bytes, chance: random.Random, most_bytes: int) -> bytes:
    if content.startswith(MAGIC):
        return _with_header(content, chance)[:most_bytes]
    if chance.random() < 0.3:
        return b""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(name, archive.read(name)) for name in archive.namelist()]
    except Exception:  # a damaged archive is changed as bytes are
        return b""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, member in members:
            if chance.random() < 0.1:
                name = chance.choice((*mutations.TEXTS, "targets.npy", "x", "x.npy/")).replace("\0", "")
            if chance.random() < 0.5:
                member = _with_header(member, chance)
            archive.writestr(name or "x", member)
    made = file.getvalue()
    return made if len(made) <= most_bytes else b""


def _with_header(content: bytes, chance: random.Random) -> bytes:
    """A file of an array with another header, or with other bytes after it."""
    head, _, rest = content.partition(b"\n")
    if chance.random() < 0.3:
        return head + b"\n" + chance.choice((b"", rest[:-1], rest * 2, chance.randbytes(len(rest))))
    text = "{'descr': %s, 'fortran_order': %s, 'shape': %s, }"
    kind = chance.choice(WORDS)
    told = text % (
        kind if kind[0] in "[(" else repr(kind),
        chance.choice(("True", "False", "1")),
        chance.choice(SHAPES),
    )
    if chance.random() < 0.3:
        told = chance.choice((told[:-4], "(" * 200, told + "'", "{}", f"[{told}]", told.replace("'", '"""')))
    return MAGIC + b"\x01\x00" + (len(told) + 1).to_bytes(2, "little") + told.encode() + b"\n" + rest


def smaller(content: bytes) -> Iterator[bytes]:
    yield from mutations.smaller_bytes(content)
