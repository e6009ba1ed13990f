"""Fetches a model of the hub into the cache: says what and how much before it does, and only what is not there yet."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.api import files
from bench.api.errors import InputError
from bench.tasks.hub import choosing, downloads, listing, places, settings
from bench.tasks.hub.listing import Entry, Listing, size_text
from bench.tasks.hub.reference import WHOLE, Reference
from bench.tasks.hub.remote import Hub
from bench.tasks.pretrained_folder import shown

MUCH_BYTES = 2 * 2**30
"""Downloads from this size on are asked for with `--yes`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """How a model is fetched.

    Attributes:
        trust: whether code and pickles in it may be loaded; without, they are not fetched.
        may_be_large: whether a download of gigabytes is allowed.
        is_offline: whether only what was fetched before is used.
    """

    trust: bool = False
    may_be_large: bool = False
    is_offline: bool = False


def fetch(name: str, options: Asked, say: Callable[[str], None]) -> Path:
    """The file or folder of a model of the hub, in the cache.

    Args:
        name: as `Reference.of` takes it.
        options: how it is fetched.
        say: told what is fetched, of which commit and how large it is, before it is.

    Raises:
        InputError: there is no such model, it cannot be chosen or fetched, or it is not here and may not be fetched.
        OSError: the cache cannot be written.
    """
    asked_for = Reference.of(name)
    hub = None if options.is_offline or settings.is_offline() else settings.hub()
    reference, contents = _listed(hub, asked_for)
    _say_left_out(contents, say)
    choice = choosing.choose(contents.files, reference, trust=options.trust)
    reference = reference.at(reference.revision, choice.path)
    folder = places.of_model(reference, (entry.path for entry in choice.parts))
    model = folder if choice.path == WHOLE else folder / choice.path
    if code := choosing.code_beside(contents.files, choice):
        say(f"Python files of a repository are not fetched ({', '.join(code[:3])}); a clone that you name has them")
    what = "the folder" if choice.path == WHOLE else choice.path
    say(f"{asked_for} is {what} of {asked_for.repository} at commit {reference.revision}")
    fetched = _obtain(hub, reference, choice.parts, folder, options, say)
    if choice.format is not None and model.is_file():
        more = choosing.further(contents.files, choice, tuple(choice.format.mentions(model)))
        _obtain(hub, reference, more, folder, options, say, before=fetched)
    if hub is not None:
        places.note_commit(asked_for, reference.revision)
    return model


def _listed(hub: Hub | None, asked_for: Reference) -> tuple[Reference, Listing]:
    """The model at its commit, and the files of the repository there; those of a commit stay the same and are kept.

    Raises:
        InputError: the hub does not tell them, or may not be asked and they are not kept.
    """
    if asked_for.is_pinned:
        commit: str | None = asked_for.revision
    else:
        commit = places.noted_commit(asked_for) if hub is None else listing.commit_of(hub, asked_for)
    if commit is None:
        raise _not_here(asked_for)
    reference = asked_for.at(commit)
    place = places.of_commit(reference.repository, commit) / places.LISTING
    if (contents := listing.cached(place)) is None:
        if hub is None:
            raise _not_here(asked_for)
        contents = listing.listed(hub, reference)
        listing.keep(contents, place)
    return reference, contents


def _obtain(
    hub: Hub | None,
    reference: Reference,
    entries: Sequence[Entry],
    folder: Path,
    options: Asked,
    say: Callable[[str], None],
    *,
    before: int = 0,
) -> int:
    """Fetch those of the files that are not here, after their size was said.

    Args:
        before: bytes of the same model that were fetched just now, which count as well.

    Returns:
        The bytes that were fetched.

    Raises:
        InputError: they are larger than what may be fetched or than the disk has room for, or cannot be fetched.
    """
    missing = [entry for entry in entries if not downloads.is_whole(entry, folder / entry.path)]
    if not missing:
        return 0
    if hub is None:
        raise _not_here(reference)
    size = sum(downloads.num_missing(reference, entry, folder / entry.path) for entry in missing)
    present_bytes = sum(entry.size for entry in missing) - size
    here = f", besides {size_text(present_bytes)} that are here" if present_bytes else ""
    say(
        f"{len(missing)} {'file' if len(missing) == 1 else 'files'} of {size_text(size)} to fetch from {hub.host}{here}"
    )
    if before + size > MUCH_BYTES and not options.may_be_large:
        whole, most = size_text(before + size), size_text(MUCH_BYTES)
        raise InputError(
            f"{reference} takes a download of {whole}; more than {most} must be asked for",
            fix="add --yes to the command; `bench run` has it, and with --dry-run it only fetches",
        )
    downloads.check_room(size, folder)
    with _locked(places.of_commit(reference.repository, reference.revision) / places.LOCK, say):
        for entry in missing:
            downloads.download(hub, reference, entry, folder / entry.path, say)
    return size


@contextlib.contextmanager
def _locked(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a commit; it ends with the process that holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(files.open_to_change(path), "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another `bench` is fetching files of this commit; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _not_here(reference: Reference) -> InputError:
    name = shlex.quote(str(reference))
    return InputError(
        f"{reference} was not fetched before, and without the network nothing is fetched",
        fix=f"with a network, and without --offline and HF_HUB_OFFLINE: bench run --dry-run --model {name}",
    )


def _say_left_out(contents: Listing, say: Callable[[str], None]) -> None:
    if contents.left_out:
        names = ", ".join(map(shown, contents.left_out[:2]))
        say(f"{len(contents.left_out)} of its files have names that are not taken, such as {names}; they are left out")
