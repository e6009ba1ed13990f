"""Downloads from the hub that break off, and the beginnings that they leave: what is here is not fetched again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.api import cache
from bench.api.errors import InputError
from bench.tasks.hub import downloads, fetch, listing, places
from bench.tasks.hub.reference import Reference
from support.hub_fixtures import Fetched
from support.hub_server import LARGE, Handler, StandIn, commit, told

NAME = "hf:org/net"
MODEL = bytes(range(256)) * (LARGE // 100)
SIZE = len(MODEL)


def of_files(answer: Callable[[Handler], Any]) -> Callable[[Handler, str], bool]:
    """A hook that answers the requests for large files."""
    return lambda handler, path: handler.host == "cdn" and answer(handler) is None


def files_here() -> list[str]:
    """What lies in the cache of the hub besides lists and locks."""
    known = (places.LISTING, places.LOCK)
    return [path.name for path in places.folder().rglob("*") if path.is_file() and path.name not in known]


def keep_beginning(content: bytes) -> Path:
    """Leave the beginning of the only file, as a download that was killed does."""
    reference = Reference(repository="org/net", revision=commit(1), path="model.onnx")
    target = places.of_model(reference, ["model.onnx"])
    entry = listing.entries_of([told("model.onnx", MODEL)])[0][0]
    name = cache.digest([str((target / "model.onnx").relative_to(places.folder())), entry.sha256, entry.blob])
    path = places.of_commit("org/net", commit(1)) / places.PARTIAL / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def send_part(handler: Handler, content: bytes, num_bytes: int) -> None:
    """Announce the rest of a file, send a part of that length, and hang up."""
    asked = handler.headers.get("Range")
    begin = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
    handler.send_response(206 if asked else 200)
    handler.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
    handler.send_header("Content-Length", str(len(content) - begin))
    handler.end_headers()
    handler.wfile.write(content[begin : begin + num_bytes])


def test_a_beginning_is_gone_on_from(hub: StandIn, fetched: Fetched) -> None:
    hub.add("org/net", {"model.onnx": MODEL})
    path = keep_beginning(MODEL[:100])
    assert fetched(NAME).read_bytes() == MODEL
    assert [request.headers["range"] for request in hub.requests if "range" in request.headers] == ["bytes=100-"] * 2
    assert not path.exists()


@pytest.mark.parametrize(
    "beginning", [b"x" * 100, MODEL + b"more", b"x" * len(MODEL)], ids=["other", "longer", "another of its length"]
)
def test_a_beginning_of_something_else_is_begun_anew(beginning: bytes, hub: StandIn, fetched: Fetched) -> None:
    hub.add("org/net", {"model.onnx": MODEL})
    keep_beginning(beginning)
    assert fetched(NAME).read_bytes() == MODEL


def test_a_beginning_needs_no_room_and_is_no_download(
    hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("org/net", {"model.onnx": MODEL})
    keep_beginning(MODEL[:2000])
    monkeypatch.setattr(fetch, "MUCH_BYTES", SIZE - 2000)
    free = downloads.SPARE_BYTES + SIZE - 2001
    monkeypatch.setattr(downloads, "shutil", SimpleNamespace(disk_usage=lambda folder: SimpleNamespace(free=free)))
    with pytest.raises(InputError, match=r"^no room for 0\.6 kB: the disk of the cache has 67\.1 MB left"):
        fetched(NAME)
    free += 1
    assert fetched(NAME).read_bytes() == MODEL
    assert fetched.said[-1] == (
        f"1 file of 0.6 kB to fetch from {hub.url.removeprefix('http://')}, besides 2.0 kB that are here"
    )


@pytest.mark.parametrize("beginning", [MODEL + b"more", b""], ids=["longer", "empty"])
def test_what_is_no_beginning_counts_for_nothing(beginning: bytes, hub: StandIn, fetched: Fetched) -> None:
    hub.add("org/net", {"model.onnx": MODEL})
    keep_beginning(beginning)
    assert fetched(NAME).read_bytes() == MODEL
    assert fetched.said[-1].endswith(f"1 file of 2.6 kB to fetch from {hub.url.removeprefix('http://')}")


def test_another_beginning_is_told_from_a_connection_that_breaks_off(hub: StandIn, fetched: Fetched) -> None:
    """The file comes to its end at the last attempt, and its beginning was another's."""
    hub.add("org/net", {"model.onnx": MODEL})
    keep_beginning(b"x" * 100)
    asked: list[str | None] = []

    def busy(handler: Handler) -> None:
        asked.append(handler.headers.get("Range"))
        handler.refuse(503) if len(asked) < downloads.ATTEMPTS else handler.send_file(MODEL)

    hub.hooks.append(of_files(busy))
    assert fetched(NAME).read_bytes() == MODEL
    assert asked == ["bytes=100-"] * downloads.ATTEMPTS + [None]
    assert fetched.said[-1] == "model.onnx: the beginning that was kept is not that of the file; all of it is fetched"


def test_another_content_in_parts(hub: StandIn, fetched: Fetched) -> None:
    """All parts are of this command, so the hub is to blame, and is not asked for all of it again."""
    hub.add("org/net", {"model.onnx": MODEL})
    asked: list[str | None] = []

    def part(handler: Handler) -> None:
        asked.append(handler.headers.get("Range"))
        send_part(handler, MODEL[:-1] + b"!", 2000)

    hub.hooks.append(of_files(part))
    with pytest.raises(InputError, match=r"sends another content of model\.onnx than it lists: its digest differs$"):
        fetched(NAME)
    assert asked == [None, "bytes=2000-"]
    assert files_here() == []


@pytest.mark.parametrize("begin", [0, 100])
def test_another_length_than_was_listed(begin: int, hub: StandIn, fetched: Fetched) -> None:
    hub.add("org/net", {"model.onnx": MODEL})
    hub.hooks.append(of_files(lambda handler: handler.send_file(MODEL + b"more")))
    if begin:
        keep_beginning(MODEL[:begin])
    with pytest.raises(InputError, match=r"sends more of model\.onnx than"):
        fetched(NAME)
    assert files_here() == []


@pytest.mark.parametrize("status", [200, 206, 416])
def test_a_host_that_does_not_go_on(status: int, hub: StandIn, fetched: Fetched) -> None:
    """It sends the whole file, another part of it, or nothing, whatever part is asked for."""
    hub.add("org/net", {"model.onnx": MODEL})
    keep_beginning(MODEL[:100])

    def answer(handler: Handler) -> None:
        if "Range" not in handler.headers:
            return handler.send_file(MODEL)
        if status == 416:
            return handler.refuse(416)
        handler.send_response(status)
        if status == 206:
            handler.send_header("Content-Range", f"bytes 0-{len(MODEL) - 1}/{len(MODEL)}")
        handler.send_header("Content-Length", str(len(MODEL)))
        handler.end_headers()
        handler.wfile.write(MODEL)
        return None

    hub.hooks.append(of_files(answer))
    assert fetched(NAME).read_bytes() == MODEL


def test_a_download_that_breaks_off_goes_on(hub: StandIn, fetched: Fetched) -> None:
    hub.add("org/net", {"model.onnx": MODEL})
    begun: list[str | None] = []

    def part(handler: Handler) -> None:
        begun.append(handler.headers.get("Range"))
        send_part(handler, MODEL, 1000)

    hub.hooks.append(of_files(part))
    assert fetched(NAME).read_bytes() == MODEL
    assert begun == [None, "bytes=1000-", "bytes=2000-"]
    assert [line for line in fetched.said if "broke off" in line] == [
        "model.onnx broke off at 1.0 kB of 2.6 kB: the answer ended early",
        "model.onnx broke off at 2.0 kB of 2.6 kB: the answer ended early",
    ]


def test_a_download_that_breaks_off_again_and_again(hub: StandIn, fetched: Fetched) -> None:
    hub.add("org/net", {"model.onnx": MODEL})
    hub.hooks.append(of_files(lambda handler: handler.refuse(503)))
    with pytest.raises(InputError, match=r"broke off model\.onnx 5 times; the same command goes on from 0\.0 kB$"):
        fetched(NAME)
    assert len(hub.asked("cdn")) == downloads.ATTEMPTS
    hub.hooks.clear()
    assert fetched(NAME).read_bytes() == MODEL
