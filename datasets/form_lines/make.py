"""Generates every split of form lines, writes the committed files and records all sums.

`python datasets/form_lines/make.py` writes them anew and says what changed; with `--check` it writes nothing and ends
with status 1 if anything would. Needs about a minute.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bench.api.loading import load_module

FOLDER = Path(__file__).parent
generate: Any = load_module(FOLDER / "generate.py")
dataset: Any = load_module(FOLDER / "dataset.py")


def main() -> int:
    """Generate, compare with what is recorded, and write unless told to check only."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    check_only = parser.parse_args().check
    whole = {split: generate.generate(split) for split in generate.RECIPES}
    sums: dict[str, Any] = {
        "made_with": generate.versions(),
        "splits": {split: generate.digest(lines) for split, lines in whole.items()},
        "files": {},
    }
    for split, parts in dataset.PARTS.items():
        images_NHW = np.concatenate([whole[part].images[:count] for part, count in parts])
        rows = [
            "\t".join((part, whole[part].fonts[at], "numbers" if whole[part].is_numeric[at] else "words",
                       whole[part].texts[at]))
            for part, count in parts
            for at in range(count)
        ]  # fmt: skip
        table = "\n".join((dataset.HEADER, *rows)) + "\n"
        sums["files"][split] = dataset.digest(images_NHW, table)
        if not check_only:
            Image.fromarray(np.concatenate(list(images_NHW))).save(FOLDER / f"{split}.png", optimize=True)
            (FOLDER / f"{split}.tsv").write_text(table, encoding="utf-8")
    before = json.loads(generate.SUMS.read_text()) if generate.SUMS.is_file() else {"splits": {}, "files": {}}
    same = True
    for kind in ("splits", "files"):
        for name, found in sums[kind].items():
            matches = before[kind].get(name) == found
            same &= matches
            print(f"{kind}/{name}: {found}" + ("" if matches else f"  # recorded: {before[kind].get(name)}"))
    if not check_only and not same:
        generate.SUMS.write_text(json.dumps(sums, indent=2) + "\n")
    return int(check_only and not same)


if __name__ == "__main__":
    sys.exit(main())
