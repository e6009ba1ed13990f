"""Makes the committed files again: `python datasets/python_stdlib/make.py --lib FOLDER`.

FOLDER is the standard library of CPython 3.11.7 (`python3.11 -c 'import os; print(os.__file__)'` names a file of it).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import zlib
from pathlib import Path

FOLDER = Path(__file__).parent
LEFT_OUT = {"__pycache__", "idle_test", "pydoc_data", "site-packages", "test", "tests", "lib2to3"}
"""Names of folders: tests, generated files, and a package that later versions do not have."""
ONE_IN = 12
"""Modules and packages of the top level of which one goes to the test split."""
TELLING = 20
"""Characters of the shortest line that counts when modules are compared."""
MOST_KNOWN = 0.3
"""Share of a module's telling lines that modules kept before may have; above it the module is a near-duplicate."""


def is_test(path: str) -> bool:
    """Whether a module belongs to the test split: by the CRC-32 of its name at the top level, without underscores.

    So that a package stays together, and a module in C's place (`_pydecimal`) with the one that it stands for.
    """
    name = path.partition("/")[0].removesuffix(".py").removeprefix("_py").strip("_")
    return zlib.crc32(name.encode()) % ONE_IN == 0


def distinct(modules: dict[str, str]) -> dict[str, str]:
    """Modules without near-duplicates: the test split's come first, so what is like one of them is not trained on."""
    kept, known = {}, set[str]()
    for path in sorted(modules, key=lambda path: (not is_test(path), -len(modules[path]), path)):
        lines = telling(modules[path])
        if len(lines & known) <= MOST_KNOWN * len(lines):
            kept[path] = modules[path]
            known |= lines
    return kept


def telling(text: str) -> set[str]:
    """The lines of a module that count when modules are compared, without white space at both ends."""
    return {line for line in map(str.strip, text.splitlines()) if len(line) >= TELLING}


def read(library: Path) -> dict[str, str]:
    """The source of every module with lines that tell it from others, by path, its lines ending in a line feed.

    Those that are not UTF-8 are left out.
    """
    modules = {}
    for file in sorted(library.rglob("*.py")):
        path = file.relative_to(library)
        if LEFT_OUT & {*path.parts}:
            continue
        try:
            text = file.read_bytes().decode().replace("\r\n", "\n")
        except UnicodeDecodeError:
            continue
        if telling(text):
            modules[path.as_posix()] = text
    return modules


def main() -> None:
    """Parse the command line, write both files and print their sizes and sums."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lib", type=Path, required=True, help="the standard library of CPython 3.11.7")
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    everything = read(options.lib)
    kept = distinct(everything)
    print(f"{len(everything)} modules, {len(kept)} without near-duplicates")
    for split in ("train", "test"):
        own = sorted(path for path in kept if is_test(path) == (split == "test"))
        lines = "".join(json.dumps({"path": path, "text": kept[path]}) + "\n" for path in own)
        content = lzma.compress(lines.encode(), format=lzma.FORMAT_XZ, preset=9 | lzma.PRESET_EXTREME)
        (options.out / f"{split}.jsonl.xz").write_bytes(content)
        size = sum(len(kept[path].encode()) for path in own)
        digest = hashlib.sha256(content).hexdigest()
        print(f"{split}: {len(own)} modules, {size} bytes, {len(content)} packed, {digest}")


if __name__ == "__main__":
    main()
