"""A hub that lies, or sends too much: it is refused in one sentence, and no file stays that looks whole."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from bench.api.errors import InputError
from bench.tasks.hub import listing, places, remote
from bench.tasks.hub.choosing import choose
from bench.tasks.hub.listing import Entry
from bench.tasks.hub.reference import WHOLE, Reference
from support.hub_fixtures import Fetched
from support.hub_server import LARGE, Handler, StandIn, commit, told

NAME = "hf:org/net"
MODEL = bytes(range(256)) * (LARGE // 100)


def files_here() -> list[str]:
    """What lies in the cache of the hub besides lists and locks."""
    known = (places.LISTING, places.LOCK)
    return [path.name for path in places.folder().rglob("*") if path.is_file() and path.name not in known]


def of_files(answer: Callable[[Handler], Any], host: str = "cdn") -> Callable[[Handler, str], bool]:
    """A hook that answers the requests for files of a host."""

    def hook(handler: Handler, path: str) -> bool:
        if handler.host != host or (host == "hub" and "/resolve/" not in path):
            return False
        answer(handler)
        return True

    return hook


@pytest.mark.parametrize(
    "path",
    [
        *("../model.onnx", "a/../../model.onnx", "/etc/model.onnx", "a\\model.onnx", "C:model.onnx", "a//model.onnx"),
        *("model\0.onnx", "./model.onnx", "\x1b[31mmodel.onnx", "model\u202e.onnx", "two\nlines.onnx", "", "m.onnx/"),
    ],
)
def test_paths_that_lead_elsewhere_are_left_out(path: str, hub: StandIn, fetched: Fetched) -> None:
    hub.add("org/net", {path: MODEL, "net.tflite": b"t"})
    model = fetched(NAME)
    assert model.name == "net.tflite"
    assert fetched.said[0].startswith("1 of its files have names that are not taken, such as ")
    assert fetched.said[0].isprintable()
    assert set(files_here()) == {"main", "net.tflite"}


def test_a_name_that_looks_like_a_page_is_a_name(hub: StandIn, fetched: Fetched) -> None:
    hub.add("org/net", {"<script>alert(1)</script>.onnx": MODEL})
    assert fetched(NAME).read_bytes() == MODEL


@pytest.mark.parametrize(
    "changed",
    [
        {"size": -1},
        {"size": 1.5},
        {"size": True},
        {"size": None},
        {"size": "9"},
        {"size": 2**60},
        {"oid": None},
        {"oid": "../../x"},
        {"lfs": {"oid": "x", "size": 3}},
        {"lfs": {"size": 3}},
        {"lfs": {"oid": "0" * 64}},
        {"path": None},
        {"path": ["a"]},
    ],
)
def test_lists_that_cannot_be_read(changed: dict[str, Any], hub: StandIn, fetched: Fetched) -> None:
    hub.add("org/net", {"model.onnx": b"small"})
    hub.tells = lambda items: [{**item, **changed} for item in items]
    with pytest.raises(InputError, match=r"^the hub's list of files has "):
        fetched(NAME)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[" * 100_000, b'{"sha": 1}', b'{"sha": "../../x"}', b"[]", b"\xff"])
def test_answers_that_are_none(body: bytes, hub: StandIn, fetched: Fetched) -> None:
    hub.hooks.append(lambda handler, path: handler.send_file(body) is None)
    with pytest.raises(InputError, match="is it a hub"):
        fetched(NAME)
    assert not places.folder().exists()


def test_another_commit_than_the_one_that_was_asked_for(hub: StandIn) -> None:
    hub.hooks.append(lambda handler, path: handler.send_json({"sha": commit(2)}) is None)
    asked = Reference.of(f"{NAME}@{commit(1)}")
    with pytest.raises(InputError, match="answers with another commit than"):
        listing.commit_of(remote.Hub(hub.url, None), asked)


def test_a_list_without_an_end(hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("org/net", {"model.onnx": MODEL})
    monkeypatch.setattr(listing, "MOST_FILES", 50)
    pages = iter(range(10_000))

    def endless(handler: Handler, path: str) -> bool:
        if "/tree/" not in path:
            return False
        at = next(pages)
        page = [told(f"{at}/{number}.onnx", b"x") for number in range(10)]
        handler.send_json(page, {"Link": f'<{hub.url}/any?cursor={at}>; rel="next"'})
        return True

    hub.hooks.append(endless)
    with pytest.raises(InputError, match=r"has more than 50 files; name a clone of it by its folder$"):
        fetched(NAME)
    assert next(pages) == 6


def test_a_list_that_goes_in_a_circle(hub: StandIn, fetched: Fetched) -> None:
    hub.add("org/net", {"model.onnx": MODEL})

    def circle(handler: Handler, path: str) -> bool:
        if "/tree/" not in path:
            return False
        handler.send_json([], {"Link": f'<{hub.url}/any?cursor=1>; rel="next"'})
        return True

    hub.hooks.append(circle)
    with pytest.raises(InputError, match="repeats a page of the files"):
        fetched(NAME)


def test_an_answer_without_an_end(hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MOST_ANSWER_BYTES", 2**20)
    hub.hooks.append(endless_chunks)
    with pytest.raises(InputError, match="answers with more than 1 MiB; that is refused"):
        fetched(NAME)


def endless_chunks(handler: Handler, path: str) -> bool:
    """Send data without an end and without a length."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    part = b" " * 2**16
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
    return True


@pytest.mark.timeout(120)  # a search that looks at each name for each name takes many minutes
def test_a_very_long_list_is_chosen_from_in_seconds() -> None:
    """As many files as are taken: each in a folder with a marker, or a model."""
    reference = Reference(repository="org/net", revision=commit(1))
    for form in ("{}/config.json", "{}.onnx", "a/{}.xml"):
        paths = [form.format(at) for at in range(listing.MOST_FILES)]
        files = {path: Entry(path=path, size=1, sha256=None, blob=commit(1)) for path in paths}
        with pytest.raises(InputError):
            choose(files, reference, trust=True)
        with pytest.raises(InputError):
            choose(files, reference.at(commit(1), "none"), trust=True)


def test_more_than_was_announced_is_cut_off(hub: StandIn, fetched: Fetched) -> None:
    hub.add("org/net", {"model.onnx": MODEL})
    sent: list[bool] = []
    hub.hooks.append(of_files(lambda handler: sent.append(endless_chunks(handler, ""))))
    with pytest.raises(InputError, match=rf"sends more of model\.onnx than the {len(MODEL):,} bytes .*it was cut off"):
        fetched(NAME)
    assert files_here() == []


@pytest.mark.parametrize("large", [True, False], ids=["sha256", "blob"])
def test_another_content_than_was_listed(large: bool, hub: StandIn, fetched: Fetched) -> None:
    content = MODEL if large else b"small model"
    hub.add("org/net", {"model.onnx": content})
    other = content[:-1] + b"!"
    hub.hooks.append(of_files(lambda handler: handler.send_file(other), "cdn" if large else "hub"))
    with pytest.raises(InputError, match=r"sends another content of model\.onnx than it lists: its digest differs$"):
        fetched(NAME)
    assert files_here() == []


def test_an_encoding_is_refused(hub: StandIn, fetched: Fetched) -> None:
    hub.add("org/net", {"model.onnx": MODEL})
    hub.hooks.append(of_files(lambda handler: handler.send_file(MODEL, {"Content-Encoding": "gzip"})))
    with pytest.raises(InputError, match="answers in an encoding that it was not asked for"):
        fetched(NAME)


def test_the_list_in_the_cache_is_as_the_hub_told_it(hub: StandIn, fetched: Fetched) -> None:
    sha = hub.add("org/net", {"model.onnx": MODEL, "a.txt": b"a", "../x": b"x"})
    fetched(NAME)
    place = places.of_commit("org/net", sha) / places.LISTING
    found = listing.cached(place)
    assert found is not None
    assert found == listing.listed(remote.Hub(hub.url, None), Reference(repository="org/net", revision=sha))
    assert found.left_out == ("../x",)
    assert json.loads(place.read_text())["files"][0]["lfs"]["size"] == len(MODEL)
    assert WHOLE not in found.files
