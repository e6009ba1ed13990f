"""Where files of the hub lie in the cache, by commit, and which model of the hub a path there is.

`hub/<org>/<name>/<commit>/<model>/` holds the files of one model under their paths in the repository, and no others:
formats that are folders read what they find. Beside it lie the list of the repository's files, what is not whole yet,
and a lock; `refs/` notes which commit a branch or a tag stood for.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from bench.api import cache, files
from bench.api.errors import InputError
from bench.tasks.hub import settings
from bench.tasks.hub.reference import COMMIT, WHOLE, Reference

LISTING, PARTIAL, LOCK, REFS = "files.json", "partial", "lock", "refs"


def folder() -> Path:
    """The folder of all that was fetched from the hub; another hub, which may have other files, has one of its own."""
    endpoint = settings.endpoint()
    return cache.folder() / ("hub" if endpoint == settings.ENDPOINT else f"hub-{cache.digest(endpoint)[:12]}")


def of_commit(repository: str, commit: str) -> Path:
    """The folder of a commit."""
    return folder() / repository / commit


def of_model(reference: Reference, parts: Iterable[str]) -> Path:
    """The folder that holds the files of a model at a commit, by their paths in the repository.

    Args:
        reference: the model at the commit.
        parts: paths of its files; with `--trust` there may be others.
    """
    return of_commit(reference.repository, reference.revision) / cache.digest([reference.path, *sorted(parts)])[:12]


def reference_of(path: Path) -> Reference | None:
    """The model of the hub, at its commit, that a path in the cache is; None for any other path."""
    try:
        org, name, commit, _, *rest = path.absolute().relative_to(folder()).parts
        return Reference.of(f"hf:{org}/{name}@{commit}:{'/'.join(rest) or WHOLE}") if COMMIT.fullmatch(commit) else None
    except (ValueError, InputError):
        return None


def noted_commit(reference: Reference) -> str | None:
    """The commit that a branch or a tag stood for when it was last fetched; None where it never was."""
    try:
        text = files.read_text(_ref(reference)).strip()
    except (OSError, ValueError, InputError):
        return None
    return text if COMMIT.fullmatch(text) else None


def note_commit(reference: Reference, commit: str) -> None:
    """Note the commit that a branch or a tag stands for.

    Raises:
        OSError: the cache cannot be written.
    """
    if not reference.is_pinned:
        files.write_whole(_ref(reference), commit.encode())


def _ref(reference: Reference) -> Path:
    return folder() / reference.repository / REFS / quote(reference.revision, safe="")
