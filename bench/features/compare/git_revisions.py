"""A model at a git revision: read from the repository's objects, without touching the work tree."""

from __future__ import annotations

import dataclasses
import mmap
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.api import cache
from bench.api.errors import InputError
from bench.tasks.adopt import LONGEST_NAME

_POINTER = b"version https://git-lfs."
"""Begins the file that Git LFS keeps in place of a large one."""
_POINTER_BYTES = 1024
"""Such a file is smaller. Source: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md"""
EXTERNAL = b"location"
"""Key of external data: every ONNX file that names another file holds it."""
_NOT_ALONE = (".onnx", ".py")
"""Endings of models that may need other files of their folder."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Revision:
    """A path at a commit.

    Attributes:
        asked: the revision as the user wrote it.
        commit: the commit's full hash.
        short: the shortest beginning of the hash that is unique.
        top: the top of the work tree.
        place: the path from the top of the work tree on; `.` for the top itself.
        content: object names of all that the model may consist of: equal at two revisions where nothing of it changed.
        is_folder: whether the path is a folder.
    """

    asked: str
    commit: str
    short: str
    top: Path
    place: str
    content: str
    is_folder: bool

    def __str__(self) -> str:
        return f"{self.place} at {self.asked} ({self.short})"

    @property
    def name(self) -> str:
        """The model's file name with the revision's hash, short enough for the name of a task."""
        path = Path(self.place) if self.place != "." else self.top
        stem, suffix = (path.name, "") if self.is_folder else (path.stem, path.suffix)
        return f"{stem[: LONGEST_NAME - len(self.short) - 1]}_{self.short}{suffix}"


def find(revision: str, path: Path) -> Revision:
    """A path at a revision of the repository that holds it.

    Args:
        revision: a branch, tag or hash, as `git rev-parse` takes it.
        path: a model's path, which need not exist in the work tree.

    Raises:
        InputError: git is missing, the path lies in no work tree, or the revision or the path at it does not exist.
    """
    path = path.absolute()
    near = path
    while not near.is_dir():  # the folder of the path may be gone from the work tree
        near = near.parent
    outside = f"{path} is in no work tree that git can read"
    top, _, prefix = _git(near, "rev-parse", "--show-toplevel", "--show-prefix", failure=outside).partition("\n")
    place = os.path.normpath(prefix + path.relative_to(near).as_posix())
    commit = _git(near, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if not commit:
        raise InputError(f"no revision {revision!r} in {top}; `git log --oneline --all` lists them")
    short = _git(near, "rev-parse", "--short", commit)
    object_name = f"{commit}:{'' if place == '.' else place}"
    content = _git(near, "rev-parse", "--verify", "--quiet", object_name)
    if Path(place).suffix.lower() in _NOT_ALONE:
        content += _git(near, "rev-parse", "--verify", "--quiet", f"{commit}:{os.path.dirname(place)}")  # noqa: PTH120
    kind = _git(near, "cat-file", "-t", object_name)
    if kind not in ("blob", "tree"):
        raise InputError(f"no file or folder {place} at {revision} ({short}) in {top}")
    return Revision(
        asked=revision,
        commit=commit,
        short=short,
        top=Path(top),
        place=place,
        content=content,
        is_folder=kind == "tree",
    )


def extract(revision: Revision) -> Path:
    """Write a model and the files that it needs into the cache, and give the model's path there.

    An `.onnx` file needs the files below its folder that it names; a `.py` file, all files in its folder.

    Raises:
        InputError: git cannot read the files, or Git LFS keeps one of them elsewhere.
    """

    def make(marker: Path) -> dict[str, Any]:
        tree, ready = marker.with_name("tree"), marker.with_name("home")
        model = tree / revision.place
        _unpack(revision, [revision.place], tree)
        if revision.is_folder:
            ready.mkdir()
            model.rename(ready / revision.name)
        else:
            if more := _belongings(revision, model):
                _unpack(revision, more, tree)
            model.parent.rename(ready)
            (ready / model.name).rename(ready / revision.name)
        _refuse_pointers(revision, ready)
        shutil.rmtree(tree, ignore_errors=True)
        marker.write_text(revision.commit)
        return {}

    key = cache.digest([str(revision.top), revision.commit, revision.place])
    marker, _ = cache.obtain(f"revisions/{key}", "commit", make)
    return marker.with_name("home") / revision.name


def _belongings(revision: Revision, model: Path) -> list[str]:
    """Paths, from the top of the work tree on, of the other files that a model's file needs."""
    kind = model.suffix.lower()
    if kind not in _NOT_ALONE or (kind == ".onnx" and not _mentioned([EXTERNAL], model)):
        return []
    folder = os.path.dirname(revision.place)  # noqa: PTH120 (empty at the top, not `.`)
    within = [f"{folder}/"] if folder else []
    listed = _git(revision.top, "ls-tree", "-r", "-z", "--name-only", revision.commit, "--", *within)
    places = [place for place in listed.split("\0") if place not in ("", revision.place)]
    if kind == ".py":
        return places
    names = {place.removeprefix(f"{folder}/").encode(): place for place in places}
    return [names[name] for name in _mentioned(list(names), model)]


def _mentioned(texts: Sequence[bytes], path: Path) -> list[bytes]:
    """The texts that occur in a file; the file is not parsed, since it is not trusted."""
    if path.stat().st_size == 0:
        return []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return [text for text in texts if content.find(text) >= 0]


def _refuse_pointers(revision: Revision, folder: Path) -> None:
    """Refuse files whose content Git LFS keeps elsewhere.

    Raises:
        InputError: a file is a pointer of Git LFS; the message has the command that fetches its content.
    """
    for path in folder.rglob("*"):
        if path.is_file() and path.stat().st_size < _POINTER_BYTES and path.read_bytes().startswith(_POINTER):
            raise InputError(
                f"{revision} is kept by Git LFS, and its content is not here",
                fix=f"git lfs fetch origin {revision.commit}",
            )


def _unpack(revision: Revision, places: Sequence[str], folder: Path) -> None:
    """Write files of a revision into a folder, converted as git converts them at a checkout.

    Raises:
        InputError: git cannot read the files.
    """
    with tempfile.NamedTemporaryFile(dir=folder.parent, suffix=".tar") as file:
        into = f"--output={file.name}"
        _git(revision.top, "archive", into, revision.commit, "--", *places, failure=f"git cannot read {revision}")
        with tarfile.open(file.name) as tar:
            tar.extractall(folder, filter="data")


def _git(folder: Path, *arguments: str, failure: str | None = None) -> str:
    """The text that a git command prints in a folder, without the line's end.

    Args:
        failure: the beginning of the message if the command fails. Without it, the text is empty then.

    Raises:
        InputError: git is not installed, or the command fails; then the message ends in git's last line.
    """
    command = ["git", "-C", str(folder), "--literal-pathspecs", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError as error:
        raise InputError("git is not installed, and two revisions of a model need it") from error
    if done.returncode and failure is not None:
        lines = os.fsdecode(done.stderr).strip().splitlines() or ["no reason was given"]
        raise InputError(f"{failure}: {lines[-1].removeprefix('fatal: ')}")
    return os.fsdecode(done.stdout).rstrip("\n")
