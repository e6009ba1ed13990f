"""The files of a pick that run its artifact in a page, beside those that run it in Python: `Runtime.page`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from bench.api import cache, files
from bench.api.errors import InputError
from bench.records.store import write_atomically


def write(folder: Path, wanted: Mapping[str, str | Path], earlier: Mapping[str, str]) -> dict[str, str]:
    """Write the files below a folder.

    Args:
        folder: the folder of the pick.
        wanted: by path in the folder, a text or a file to copy.
        earlier: digests of the files that an earlier pick wrote, by path; those that are not written again are removed.

    Returns:
        The digests of the files that are there now, for the recipe.

    Raises:
        InputError: a file that would be replaced is not what an earlier pick wrote.
    """
    for name, content in wanted.items():
        path = folder / name
        files.refuse_to_replace(path)
        same = isinstance(content, Path) and path.exists() and cache.file_digest(path) == cache.file_digest(content)
        if path.exists() and not same and cache.file_digest(path) != earlier.get(name):
            if isinstance(content, str) and path.read_text(encoding="utf-8", errors="replace") == content:
                continue
            raise InputError(
                f"{path} is there, and not as a pick wrote it: it is left as it is", fix="--output names another folder"
            )
    for name, content in wanted.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            files.copy_whole(content, path)
        else:
            write_atomically(path, content)
    for name in earlier.keys() - wanted.keys():
        _remove(folder, name, earlier[name])
    return {name: cache.file_digest(folder / name) for name in wanted}


def _remove(folder: Path, name: str, digest: str) -> None:
    """Remove a file that an earlier pick wrote below a folder, if it is as it was written: it runs another artifact."""
    path = folder / name
    with contextlib.suppress(OSError, ValueError):
        if path.is_symlink() or not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
            return
        if cache.file_digest(path) == digest:
            path.unlink()
            if path.parent != folder and not any(path.parent.iterdir()):
                path.parent.rmdir()


def digests_of(recipe: Path) -> dict[str, str]:
    """The digests that a recipe has of such files; none where it is no recipe."""
    try:
        said = json.loads(files.read_bytes(recipe)).get("page", {})
    except (OSError, ValueError, AttributeError, InputError):
        return {}
    return {str(name): str(digest) for name, digest in said.items()} if isinstance(said, dict) else {}
