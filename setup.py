"""What setuptools cannot be told in `pyproject.toml`: a wheel says which models and data sets only the repository has.

The wheel has no `models/` and no `datasets/`. `bench list` names them all the same, from the file that this build step
writes, and says where to get them. A checkout has the folders themselves, so nothing is written there.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
LISTED = Path("bench", "api", "in_repository.txt")
"""Read by `bench.api.loading.in_repository`; one line for each folder, such as `models/crnn`."""


class BuildWithListing(build_py):
    """Copies the package's files, then writes the listing beside them."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        entries = [*ROOT.glob("models/*/task.py"), *ROOT.glob("datasets/*/dataset.py")]
        folders = sorted(entry.parent.relative_to(ROOT).as_posix() for entry in entries)
        (Path(self.build_lib) / LISTED).write_text("".join(f"{folder}\n" for folder in folders), encoding="utf-8")


setup(cmdclass={"build_py": BuildWithListing})
