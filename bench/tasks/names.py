"""Names of the models whose results lie in one folder: files that share a name are told apart by their folders.

A task has the name of its model's file, with which cells begin. Model hubs keep many files of the name `model.onnx`,
and results of two of them under one name would hide each other. So a folder of results notes which model each name
stands for, in `models.json`: digests of the model's place, relative to the folder, of its place in the project that it
belongs to, and of its task. A model at the same place is the same, though its content has changed since, and so is one
at the same place in another checkout of its project; so is the same content at another place. The file can be lost
without losing a result: the next model of a name then takes it. Commands that run at once take turns at it, and the
first to note a name has it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench.api import cache, files
from bench.api.errors import StoreError
from bench.tasks.hub import settings
from bench.tasks.hub.reference import Reference
from bench.tasks.project import place_in_project

FILE, LOCK = "models.json", ".models.lock"
_MOST_FOLDERS = 3
"""Folders above a model's file that its name may begin with."""
_NUM_DIGITS = 8
"""Digits of the digest that ends a name where folders do not tell two models apart."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """The model that a name stands for in a folder of results.

    Attributes:
        place: digest of its path, relative to the folder of results.
        content: digest of its task; empty where the task is a folder that is not copied.
        project: digest of `place_in_project`; empty where it belongs to none.
    """

    place: str
    content: str = ""
    project: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chosen:
    """The name of a model in a folder of results.

    Attributes:
        name: the name.
        claim: the model that the name stands for from now on, see `keep`.
        note: a line to tell the user where the name is not that of the file, or is that of another file; or None.
        before: the model that the name stood for when it was chosen; None where it stood for none.
    """

    name: str
    claim: Claim
    note: str | None = None
    before: Claim | None = None


def choose(
    results: Path, path: Path, content: str, named: Callable[[str], str], *, fetched: Reference | None = None
) -> Chosen:
    """The name that stands for the model already, or else the first that stands for no other.

    Args:
        results: folder of the results.
        path: the model.
        content: see `Claim`.
        named: makes a task's name of a text.
        fetched: the model of the hub that it is: its place is in the hub, whatever its commit; None for a file.
    """
    known = _read(results)
    chosen = _choose(known, results, path, content, named, fetched)
    return dataclasses.replace(chosen, before=known.get(chosen.name))


def _choose(
    known: Mapping[str, Claim],
    results: Path,
    path: Path,
    content: str,
    named: Callable[[str], str],
    fetched: Reference | None,
) -> Chosen:
    place = _place(results, path) if fetched is None else _place_in_hub(fetched)
    within = place_in_project(path) if fetched is None else None
    own = Claim(place=place, content=content, project=cache.digest(within) if within else "")
    texts = _texts(path, place) if fetched is None else _texts_of(fetched, place)
    candidates = [named(text) for text in texts]
    first = candidates[0]
    at_place = (name for name in candidates if name in known and known[name].place == own.place)
    if (name := next(at_place, None)) is not None:
        return Chosen(name=name, claim=own)
    alike = [name for name in known if name == first or name.endswith(f"_{first}")]
    in_project = (name for name in alike if own.project and known[name].project == own.project)
    if (name := next(in_project, None)) is not None:
        note = f"the results named {name} in {results} are of this file in another checkout of its project; they go on"
        return Chosen(name=name, claim=own, note=note)
    if content and (name := next((name for name in alike if known[name].content == content), None)) is not None:
        note = f"the results named {name} in {results} are of the same model at another place; they go on"
        return Chosen(name=name, claim=known[name], note=note)
    name = next((name for name in candidates if name not in known), candidates[-1])
    message = f"results named {first} in {results} are of another file; those of {fetched or path} are named {name}"
    return Chosen(name=name, claim=own, note=None if name == first else message)


def keep(results: Path, chosen: Chosen) -> None:
    """Note which model a name stands for, unless it was given to another one since it was chosen.

    Raises:
        StoreError: it was, or the folder of results cannot be written.
    """
    from bench.records.store import write_atomically

    if _read(results).get(chosen.name) == chosen.claim:
        return
    with _locked(results):
        known = _read(results)
        now = known.get(chosen.name)
        if now is not None and now != chosen.before and now.place != chosen.claim.place:
            if now.content and now.content == chosen.claim.content:
                return
            raise StoreError(
                f"another `bench` has just taken the name {chosen.name} in {results} for another file",
                fix="the same command chooses another name for this one",
            )
        noted = {name: dataclasses.asdict(claim) for name, claim in {**known, chosen.name: chosen.claim}.items()}
        write_atomically(results / FILE, json.dumps(noted, indent=0, sort_keys=True) + "\n")


@contextlib.contextmanager
def _locked(results: Path) -> Iterator[None]:
    """Hold the file of the names from reading to writing it; another process waits for the moment that takes.

    Raises:
        StoreError: the folder of results cannot be written.
    """
    with contextlib.ExitStack() as stack:
        try:
            results.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(os.fdopen(files.open_to_change(results / LOCK), "rb"))
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            fix = "choose another folder with --results"
            raise StoreError(f"cannot write to {results}: {error.strerror}", fix=fix) from error
        yield


def _read(results: Path) -> Mapping[str, Claim]:
    """The models by name; none where the file cannot be read, which the next run writes anew."""
    from bench.records import side_files

    claims, _ = side_files.read(results / FILE, dict[str, Claim], fix="`bench run --model` writes the file anew")
    return claims or {}


def _place(results: Path, path: Path) -> str:
    return cache.digest(os.path.relpath(path, results))


def _place_in_hub(fetched: Reference) -> str:
    """The place of a model of the hub; another hub than the usual may have another model of that name."""
    endpoint = settings.endpoint()
    place = f"{fetched.repository}:{fetched.path or ''}"
    return cache.digest(place if endpoint == settings.ENDPOINT else [endpoint, place])


def _texts(path: Path, place: str) -> Iterator[str]:
    """What a model may be called: its file, then with more of its folders, then with a part of a digest."""
    whole = Path(os.path.abspath(path))  # noqa: PTH100 (links stay: hubs keep the files that they name elsewhere)
    stem = whole.stem if path.is_file() else whole.name
    yield stem
    text = stem
    for folder in whole.parent.parts[1:][: -_MOST_FOLDERS - 1 : -1]:
        text = f"{folder}_{text}"
        yield text
    yield f"{place[:_NUM_DIGITS]}_{stem}"


def _texts_of(fetched: Reference, place: str) -> Iterator[str]:
    """What a model of the hub may be called: its repository and file, then with its owner, then with a digest."""
    yield fetched.task_name
    yield f"{fetched.repository.partition('/')[0]}_{fetched.task_name}"
    yield f"{place[:_NUM_DIGITS]}_{fetched.task_name}"
