"""A model as it was at a git revision: read from the repository's objects, never by touching the work tree."""

from __future__ import annotations

import dataclasses
import mmap
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.api import cache
from bench.api.errors import InputError
from bench.tasks.adopt import LONGEST_NAME

POINTER = b"version https://git-lfs."
"""Begins what Git LFS keeps in place of a large file."""
EXTERNAL = b"location"
"""Is in every ONNX file that names another file."""
NOT_ALONE = (".onnx", ".py")
"""Files that others of their folder may belong to."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Revision:
    """A path at a commit.

    Attributes:
        asked: the revision as it was written.
        commit: its full hash, and `short` the least of it that is unique.
        place: the path from the top of the work tree on; `.` for the top itself.
        content: equal for two revisions at which it is the same, with all that belongs to it.
        is_folder: whether it is one.
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
        """The model's name with the revision's, short enough for a task's."""
        path = Path(self.place) if self.place != "." else self.top
        stem, suffix = (path.name, "") if self.is_folder else (path.stem, path.suffix)
        return f"{stem[: LONGEST_NAME - len(self.short) - 1]}_{self.short}{suffix}"


def find(revision: str, path: Path) -> Revision:
    """A model at a revision of the repository it lies in.

    Raises:
        InputError: git is missing, the path lies in no work tree, or there is no such revision or path.
    """
    path = path.absolute()
    near = path
    while not near.is_dir():  # a file's folder, which may be gone by now
        near = near.parent
    found = _git(near, "rev-parse", "--show-toplevel", "--show-prefix")
    if found.returncode:
        raise InputError(f"{path} is in no work tree that git can read: {_last_line(found.stderr)}")
    top, prefix = found.stdout.decode().split("\n")[:2]
    place = os.path.normpath(prefix + path.relative_to(near).as_posix())
    commit = _asked(near, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if not commit:
        raise InputError(f"no revision {revision!r} in {top}; `git log --oneline --all` lists them")
    short = _asked(near, "rev-parse", "--short", commit)
    object_name = f"{commit}:{'' if place == '.' else place}"
    content = _asked(near, "rev-parse", "--verify", "--quiet", object_name)
    if Path(place).suffix.lower() in NOT_ALONE:
        content += _asked(near, "rev-parse", "--verify", "--quiet", f"{commit}:{os.path.dirname(place)}")  # noqa: PTH120
    kind = _asked(near, "cat-file", "-t", object_name)
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
    """Put a model into the cache, with what belongs to it, under a name of its own.

    To an `.onnx` file belong those files below its folder that it names; to a `.py` file, all that is in its folder.

    Raises:
        InputError: it is kept by Git LFS and its content is not here.
    """
    key = [str(revision.top), revision.commit, revision.place]
    home = cache.folder() / "revisions" / cache.digest(key)
    if (home / revision.name).exists():
        return home / revision.name
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=cache.MAKING) as making:
        tree, ready = Path(making, "tree"), Path(making, "home")
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
        try:
            ready.rename(home)
        except OSError:
            if not (home / revision.name).exists():  # else another process was faster
                raise
    return home / revision.name


def _belongings(revision: Revision, model: Path) -> list[str]:
    """Places of the other files that a model's file needs."""
    kind = model.suffix.lower()
    if kind not in NOT_ALONE or (kind == ".onnx" and not _mentioned([EXTERNAL], model)):
        return []
    folder = os.path.dirname(revision.place)  # noqa: PTH120 (empty at the top, not `.`)
    within = [f"{folder}/"] if folder else []
    listed = _asked(revision.top, "ls-tree", "-r", "-z", "--name-only", revision.commit, "--", *within)
    places = [place for place in listed.split("\0") if place not in ("", revision.place)]
    if kind == ".py":
        return places
    names = {place.removeprefix(f"{folder}/").encode(): place for place in places}
    return [names[name] for name in _mentioned(list(names), model)]


def _mentioned(texts: Sequence[bytes], path: Path) -> list[bytes]:
    """Those of some texts that occur in a file, which is not parsed, since nothing of it is trusted."""
    if path.stat().st_size == 0:
        return []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return [text for text in texts if content.find(text) >= 0]


def _refuse_pointers(revision: Revision, folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        with path.open("rb") as file:
            is_pointer = file.read(len(POINTER)) == POINTER
        if is_pointer:
            raise InputError(
                f"{revision} is kept by Git LFS, and its content is not here",
                fix=f"git lfs fetch origin {revision.commit}",
            )


def _unpack(revision: Revision, places: Sequence[str], folder: Path) -> None:
    """Write files as they were, with what git does to them at a checkout."""
    command = ["git", "-C", str(revision.top), "--literal-pathspecs", "archive", "--format=tar", revision.commit]
    with subprocess.Popen(
        [*command, "--", *places], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as tar:
                tar.extractall(folder, filter="data")
        except tarfile.TarError as error:
            process.kill()
            raise InputError(f"git cannot read {revision}: {error}") from error


def _asked(folder: Path, *arguments: str) -> str:
    """What git prints; empty where it fails."""
    return os.fsdecode(_git(folder, *arguments).stdout).rstrip("\n")


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Ask git.

    Raises:
        InputError: it is not here.
    """
    command = ["git", "-C", str(folder), "--literal-pathspecs", *arguments]
    try:
        return subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError as error:
        raise InputError("git is not installed, and two revisions of a model need it") from error


def _last_line(text: bytes) -> str:
    lines = os.fsdecode(text).strip().splitlines()
    return lines[-1].removeprefix("fatal: ") if lines else "no reason was given"
