"""The list of a repository's files as the hub tells it, and a name of a model: what is chosen stays in the repository.

The first line is the name, the second a page of the list in JSON.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from bench.tasks.hub import choosing, listing
from bench.tasks.hub.reference import PREFIX, WHOLE, Reference
from fuzz import mutations, workplace
from fuzz.watch import CODE, BrokenRule, check_printed, each

INSTRUMENTED = (
    "bench.tasks.hub.reference",
    "bench.tasks.hub.listing",
    "bench.tasks.hub.choosing",
    "bench.tasks.pretrained_folder",
)
smaller = mutations.smaller_lines
NAMES = (
    *("model.onnx", "onnx/model.onnx_data", "config.json", "modules.json", "saved_model.pb", "a/../b.onnx", "/x.onnx"),
    *("model.safetensors", "pytorch_model.bin", "model.safetensors.index.json", "m.xml", "m.bin", "net.py"),
    *(
        "C:\\x.onnx",
        ".",
        "..",
        "",
        "a//b.tflite",
        "\0.onnx",
        "1_Pooling/config.json",
        "variables/v.index",
        "model.pt",
        "x.gguf",
    ),
)
"""Paths that mean something to the formats, or lead elsewhere."""
PICKLED = (".bin", ".pt", ".pth", ".pkl", ".ckpt", ".pt2", ".joblib")


def seeds() -> Iterator[bytes]:
    for name, paths in (
        ("hf:org/net", ("onnx/model.onnx", "onnx/model.onnx_data", "README.md")),
        ("hf:org/net@main:.", ("config.json", "model.safetensors", "pytorch_model.bin", "net.py")),
        ("hf:org/net@v1", ("modules.json", "1_Pooling/config.json", "config.json", "model.safetensors")),
        ("hf:org/net:m.xml", ("m.xml", "m.bin", "../m.bin")),
        ("hf:org/net", ("model.safetensors", "a.gguf")),
    ):
        page = [{"type": "file", "path": path, "size": 9, "oid": "0" * 40} for path in paths]
        large = {"oid": "0" * 64, "size": 10**9}
        page.append({"type": "file", "path": "big.tflite", "size": 1, "oid": "", "lfs": large})
        page.append({"type": "directory", "path": "onnx", "size": 0, "oid": "0" * 40})
        yield f"{name}\n".encode() + json.dumps(page).encode()


def check(content: bytes) -> None:
    name, _, page = content.partition(b"\n")
    reference = Reference.of(PREFIX + name.decode(errors="replace").removeprefix(PREFIX))
    check_printed(f"{reference.task_name}\n")
    try:
        told = json.loads(page)
    except (ValueError, RecursionError):
        return
    entries, _ = listing.entries_of(told)
    with workplace.folder() as path:
        listing.keep(listing.Listing(files={entry.path: entry for entry in entries}), path / "files.json")
        kept = listing.cached(path / "files.json")
        if kept is None or list(kept.files.values()) != list({entry.path: entry for entry in entries}.values()):
            raise BrokenRule(CODE, "the list in the cache is another one")
        each(*(lambda trust=trust: _check_choice(kept, reference, path, trust) for trust in (False, True)))


def _check_choice(found: listing.Listing, reference: Reference, place: Path, trust: bool) -> None:
    choice = choosing.choose(found.files, reference, trust=trust)
    more = choosing.further(found.files, choice, ("../x", "/etc/passwd", "w.bin", "..", "", "net.py"))
    names = [choice.path, *(entry.path for entry in (*choice.parts, *more))]
    for name in names:
        if name != WHOLE and (not (place / name).resolve().is_relative_to(place) or name.startswith("/")):
            raise BrokenRule(CODE, f"{name!r} lies elsewhere")
        if name.endswith(".py"):
            raise BrokenRule(CODE, f"{name!r} is code")
    model = choice.parts[0].path if choice.parts else ""
    if not trust and model.endswith(PICKLED):
        raise BrokenRule(CODE, f"{model!r} is a pickle")
    check_printed(f"{choice.path}\n")


def changed(content: bytes, chance: random.Random, most_bytes: int) -> bytes:
    name, _, page = content.partition(b"\n")
    if chance.random() < 0.3:
        text = chance.choice((*NAMES, *mutations.TEXTS)).encode(errors="replace").replace(b"\n", b"")
        name = b"hf:org/net" + chance.choice((b"@", b":", b"@v1:", b"")) + text
    try:
        told = json.loads(page)
        for _ in range(chance.choice((0, 1, 1, 2, 4))):
            told = mutations.of_json(told, chance)
            if isinstance(told, list) and told and chance.random() < 0.6:
                item = chance.choice(told)
                if isinstance(item, dict):
                    item["path"] = chance.choice(NAMES)
        made = name + b"\n" + json.dumps(told).encode()
    except (ValueError, RecursionError):
        return b""
    return made if len(made) <= most_bytes else b""
