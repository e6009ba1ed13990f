"""Model files that installed packages hold, or that the tools of others write here: a part of the corpus.

Each file of `makers/` has a function `make(home)`, which writes a group of files and lists them. It is called in a
process of its own (`python corpus_models.py PLACE GROUP`), because a tool may crash, take gigabytes, or be missing:
then its files are missing from the corpus, and the reason is printed.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

CODE = (".pkl", ".joblib", ".jit", ".pt", ".pt2")
LIST = "files.json"
MAKERS = Path(__file__).with_name("makers")
LAST = "derived"
"""The group whose files are made of those of the other groups."""

Listed = dict[str, tuple[str, Mapping[str, str]]]
"""By the name of a file or folder in a group's folder: what the model is for, and its feeds."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """A model file of the corpus.

    Attributes:
        name: its package or the group that it is made in, and its name.
        path: the file or folder.
        domain: what the model is for.
        feeds: arrays by input name with which its own runtime runs it, as `corpus.toml` writes them.
    """

    name: str
    path: Path
    domain: str
    feeds: Mapping[str, str]

    @property
    def options(self) -> list[str]:
        """The options that a user must give `bench` with a file of this format.

        A format that may hold code is loaded only with `--trust`; TorchScript states no shapes.
        """
        trust = ["--trust"] if self.path.suffix in CODE or (self.path / "saved_model.pb").is_file() else []
        return [*trust, *(self.shapes if self.path.suffix in (".jit", ".pt") else ())]

    @property
    def shapes(self) -> list[str]:
        """The options that say the shapes of the feeds."""
        options = []
        for name, text in self.feeds.items():
            dtype, shape, *_ = text.split()
            options += ["--shape", f"{name}={'' if shape == 'scalar' else shape}:{dtype}"]
        return options


def entries(place: Path, only: str) -> Iterator[Entry]:
    """List the files of the groups whose names match a glob, and make those that are not there."""
    groups = fnmatch.filter((path.stem for path in MAKERS.glob("*.py")), only)
    for group in sorted(groups, key=lambda group: (group == LAST, group)):
        home = place / group
        if not (home / LIST).is_file():
            home.mkdir(parents=True, exist_ok=True)
            done = subprocess.run([sys.executable, __file__, str(place), group], capture_output=True, text=True)
            if done.returncode != 0:
                print(f"{group}: {(done.stderr.strip().splitlines() or ['it crashed'])[-1]}", flush=True)
                continue
        for name, (domain, feeds) in json.loads((home / LIST).read_text()).items():
            yield Entry(name=f"{group}/{name}", path=home / name, domain=domain, feeds=feeds)


def main() -> None:
    """Make the files of one group."""
    place, group = Path(sys.argv[1]), sys.argv[2]
    listed: Listed = importlib.import_module(f"makers.{group}").make(place / group)
    (place / group / LIST).write_text(json.dumps(listed, indent=1))


if __name__ == "__main__":
    main()
