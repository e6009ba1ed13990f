"""Several files in one artifact: a tar archive, not compressed, that has the same bytes wherever it is made."""

import tarfile
from collections.abc import Iterable
from pathlib import Path


def pack(folder: Path, names: Iterable[str], target: Path) -> None:
    """Write files of a folder, named by their paths in it, to the archive `target`, without times and owners."""
    with tarfile.open(target, "w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = (folder / name).stat().st_size
            with (folder / name).open("rb") as file:
                archive.addfile(member, file)
