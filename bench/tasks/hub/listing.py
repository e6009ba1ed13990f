"""Which files a repository of the hub has at a commit: what the hub says of them is checked, and kept by commit."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bench.api import files
from bench.api.errors import InputError
from bench.tasks.hub.reference import COMMIT, Reference, is_confined
from bench.tasks.hub.remote import BrokenOffError, Hub, StatusError
from bench.tasks.pretrained_folder import shown

MOST_FILES, MOST_S = 50_000, 300.0
"""Files of a list, and seconds for all of its pages, at most."""
_LONGEST_SHOWN = 200
_LARGEST_FILE = 2**50
SHA256 = re.compile(r"[0-9a-f]{64}")
_UNKNOWN = "is not there, or not for everyone: a token that may read it goes to HF_TOKEN, or `hf auth login` keeps it"
"""The hub answers alike for a repository that is not there and for one that is private."""
_REASONS = {
    "RevisionNotFound": "has no such branch, tag or commit",
    "GatedRepo": "asks for an agreement on the hub first, and for a token in HF_TOKEN",
    "RepoNotFound": _UNKNOWN,
}
"""What a refusal of the hub means, by the code in it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """A file of a repository.

    Attributes:
        path: its path in the repository, see `reference.is_confined`.
        size: its bytes.
        sha256: the SHA-256 of its content, of a large file; None of a file that git itself keeps.
        blob: the name of that one in git, a SHA-1 of its size and its content.
    """

    path: str
    size: int
    sha256: str | None
    blob: str | None

    def as_json(self) -> dict[str, Any]:
        """The file as the hub tells it, which `entries_of` reads."""
        large = {"oid": self.sha256, "size": self.size} if self.sha256 else None
        return {"type": "file", "path": self.path, "size": self.size, "oid": self.blob, "lfs": large}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Listing:
    """The files of a repository at a commit.

    Attributes:
        files: the files by path.
        left_out: paths that lead out of the repository or cannot be shown, whose files cannot be fetched.
    """

    files: Mapping[str, Entry]
    left_out: tuple[str, ...] = ()


def size_text(size: int) -> str:
    """A size for a person."""
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"


def commit_of(hub: Hub, reference: Reference) -> str:
    """The commit that a revision stands for.

    Raises:
        InputError: there is no such revision, or the hub cannot be reached, or answers with something else.
    """
    place = f"api/models/{reference.repository}/revision/{quote(reference.revision, safe='')}"
    with refused(hub, reference):
        answer, _ = hub.json(place, "expand=sha")
    commit = answer.get("sha") if isinstance(answer, dict) else None
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
        raise InputError(f"{hub.host} tells no commit of {reference}, but {shown(commit)}; is it a hub?")
    if reference.is_pinned and commit != reference.revision:
        raise InputError(f"{hub.host} answers with another commit than {reference}: {commit}")
    return commit


def listed(hub: Hub, reference: Reference) -> Listing:
    """The files of a repository at a commit, page by page.

    Raises:
        InputError: the hub cannot be reached, its list cannot be read, or it is very long.
    """
    place = f"api/models/{reference.repository}/tree/{reference.revision}"
    query: str | None = "recursive=true"
    all_entries: list[Entry] = []
    left_out: list[str] = []
    queries: set[str] = set()
    end_s = time.monotonic() + MOST_S
    while query is not None:
        queries.add(query)
        with refused(hub, reference):
            page, query = hub.json(place, query)  # only the query of the next page's address: the host stays
        entries, others = entries_of(page)
        all_entries += entries
        left_out += others
        if len(all_entries) + len(left_out) > MOST_FILES:
            raise InputError(f"{reference} has more than {MOST_FILES:,} files; name a clone of it by its folder")
        if time.monotonic() > end_s:
            raise InputError(f"{hub.host} takes more than {MOST_S:g} s to list the files of {reference}")
        if query in queries or (query is not None and not entries and not others):
            raise InputError(f"{hub.host} repeats a page of the files of {reference}; that is refused")
    return Listing(files={entry.path: entry for entry in all_entries}, left_out=tuple(left_out))


def entries_of(page: Any) -> tuple[list[Entry], list[str]]:
    """The files of a page, and paths of files that are left out because they lead elsewhere or cannot be shown.

    Raises:
        InputError: the page is no list of files.
    """
    if not isinstance(page, list):
        raise InputError(f"the hub's list of files is {shown(page)}; a list is allowed")
    entries, left_out = [], []
    for item in page:
        if not isinstance(item, dict) or not isinstance(path := item.get("path"), str):
            raise InputError(f"the hub's list of files has {shown(item)}; an object with a path is allowed")
        if item.get("type") != "file":  # a folder, or a repository in the repository
            continue
        large = item.get("lfs")
        size, digest = (large.get("size"), large.get("oid")) if isinstance(large, dict) else (item.get("size"), None)
        if type(size) is not int or not 0 <= size <= _LARGEST_FILE:
            raise InputError(f"the hub's list of files has {shown(size)} for the size of {shown(path)}, no number")
        if large and not (isinstance(digest, str) and SHA256.fullmatch(digest)):
            raise InputError(f"the hub's list of files has {shown(digest)} for the SHA-256 of {shown(path)}")
        blob = item.get("oid")
        if digest is None and not (isinstance(blob, str) and COMMIT.fullmatch(blob)):
            raise InputError(f"the hub's list of files has {shown(blob)} for the digest of {shown(path)}")
        if is_confined(path):
            entries.append(Entry(path=path, size=size, sha256=digest, blob=None if digest else blob))
        else:
            left_out.append(path[:_LONGEST_SHOWN])
    return entries, left_out


def cached(path: Path) -> Listing | None:
    """The list in a file of the cache; None where there is none that can be read."""
    try:
        stored = json.loads(files.read_text(path))
        entries, _ = entries_of(stored["files"])
        left_out = [str(name) for name in stored["left_out"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError, InputError):
        return None
    return Listing(files={entry.path: entry for entry in entries}, left_out=tuple(left_out))


def keep(listing: Listing, path: Path) -> None:
    """Write a list of files into the cache.

    Raises:
        OSError: it cannot be written.
    """
    stored = {"files": [entry.as_json() for entry in listing.files.values()], "left_out": listing.left_out}
    files.write_whole(path, json.dumps(stored).encode())


@contextlib.contextmanager
def refused(hub: Hub, reference: Reference) -> Iterator[None]:
    """Raise an InputError where the hub refuses a request or cannot be reached."""
    try:
        yield
    except StatusError as error:
        raise InputError(f"{reference}: {reason(hub, error)}") from error
    except BrokenOffError as error:
        raise InputError(
            f"cannot reach {hub.host}: {error}; with --offline, `bench run` takes what was fetched before"
        ) from error


def reason(hub: Hub, error: StatusError) -> str:
    """What a refusal of the hub means."""
    known = _REASONS.get(error.code)
    if known is None and error.status in (401, 403, 404):
        known = _UNKNOWN
    return f"it {known}" if known else f"{hub.host} answers with status {error.status}; try again later"
