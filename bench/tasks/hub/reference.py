"""The name of a model of the hub as `--model` takes it: `hf:org/name`, `hf:org/name@revision`, and `:path` behind."""

from __future__ import annotations

import dataclasses
import re

from bench.api.errors import InputError
from bench.api.printable import printable

PREFIX = "hf:"
_NEWEST = "main"
"""The revision of a name that tells none: the branch that every repository has."""
WHOLE = "."
"""The path of the model that is the folder of the repository itself."""
NAME = r"[A-Za-z0-9_](?:[\w.-]{0,94}[A-Za-z0-9_-])?"
_NAMED = re.compile(
    rf"hf:(?P<repository>{NAME}/{NAME})(?:@(?P<revision>[A-Za-z0-9][\w./+-]{{0,199}}))?(?::(?P<path>.+))?", re.ASCII
)
COMMIT = re.compile(r"[0-9a-f]{40}")
_LONGEST_PATH, _LONGEST_PART = 1000, 250
"""Bytes of a path in a repository, and of each of its parts, at most."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reference:
    """A model of the hub.

    Attributes:
        repository: `org/name`.
        revision: a branch, a tag or the full hash of a commit.
        path: path of the model's file or folder in the repository, `.` for its own folder; None where none is chosen.
    """

    repository: str
    revision: str = _NEWEST
    path: str | None = None

    @classmethod
    def of(cls, text: str) -> Reference:
        """The model that a text names.

        Raises:
            InputError: the text is no such name, or its path leads out of the repository.
        """
        match = _NAMED.fullmatch(text)
        if match is None or ".." in match["repository"] or ".." in (match["revision"] or ""):
            raise InputError(
                f"not a model of the hub: {text!r}; write hf:org/name, hf:org/name@revision or "
                "hf:org/name@revision:path/in/repository.onnx"
            )
        path = match["path"]
        if path not in (None, WHOLE) and not is_confined(path):
            raise InputError(f"not a path in a repository of the hub: {path!r}; write it as folder/file, without ..")
        return cls(repository=match["repository"], revision=match["revision"] or _NEWEST, path=path)

    def __str__(self) -> str:
        return f"{PREFIX}{self.repository}@{self.revision}{'' if self.path is None else f':{self.path}'}"

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a commit, which names the same files for ever."""
        return COMMIT.fullmatch(self.revision) is not None

    def at(self, commit: str, path: str | None = None) -> Reference:
        """The same at a commit, and with a path if one is given."""
        return dataclasses.replace(self, revision=commit, path=self.path if path is None else path)

    @property
    def task_name(self) -> str:
        """A name for the task that is made of the model: the repository's, and the file's where that tells more."""
        name = self.repository.partition("/")[2]
        if self.path in (None, WHOLE):
            return name
        stem = str(self.path).rpartition("/")[2]
        stem = stem.rpartition(".")[0] or stem
        return name if stem.lower() in ("model", name.lower()) else f"{name}_{stem}"


def is_named(text: str) -> bool:
    """Whether a text is meant as the name of a model of the hub, rather than as a path."""
    return text.startswith(PREFIX)


def is_confined(path: str) -> bool:
    """Whether a path of a repository stays in it, on every file system, and can be shown as it is.

    It is relative and has no `..`, no empty part, no backslash, no colon (of a drive or a stream), and no character
    that cannot be seen, such as NUL, a line end, the escape of a terminal or a sign that changes the direction of
    writing.
    """
    parts = path.split("/")
    return (
        printable(path) == path
        and not set(path) & set("\\:")
        and len(path.encode()) <= _LONGEST_PATH
        and all(part not in ("", ".", "..") and len(part.encode()) <= _LONGEST_PART for part in parts)
    )
