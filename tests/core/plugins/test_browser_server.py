"""The server of a page: who gets an answer, which files there are, and the headers that isolate the page."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.plugins.engines.browser.server import HEADERS, Server, _Handler


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of `own` at its root and of `packages`; a secret lies beside both."""
    for name, text in (("own/page.html", "page"), ("packages/a/b.mjs", "module"), ("secret.txt", "secret")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "packages" / "link").symlink_to(tmp_path / "secret.txt")
    server = Server({"": tmp_path / "own", "packages": tmp_path / "packages"})
    yield server
    server.close()


def answer(
    server: Server,
    path: str,
    *,
    token: str | None = None,
    method: str = "GET",
    host: str | None = None,
    body: bytes = b"",
) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection(server.host, timeout=10)
    own = server.address.split("/")[3]
    headers = {"Host": host or server.host}
    connection.request(method, f"/{own if token is None else token}/{path}", body=body or None, headers=headers)
    response = connection.getresponse()
    found = response.status, response.read(), dict(response.headers)
    connection.close()
    return found


def test_files_come_with_their_types_and_the_headers_that_isolate_a_page(server: Server, tmp_path: Path) -> None:
    for path, text, kind in (
        ("page.html", b"page", "text/html; charset=utf-8"),
        ("packages/a/b.mjs", b"module", "text/javascript"),
    ):
        status, body, headers = answer(server, path)
        assert (status, body, headers["Content-Type"]) == (200, text, kind)
        assert HEADERS.items() <= headers.items()
    assert HEADERS["Cross-Origin-Opener-Policy"] == "same-origin"
    assert HEADERS["Cross-Origin-Embedder-Policy"] == "require-corp"
    assert server.served == {tmp_path / "own" / "page.html", tmp_path / "packages" / "a" / "b.mjs"}


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "packages/../../secret.txt",
        "packages/link",
        "packages/%2e%2e/secret.txt",
        "packages//etc/hosts",
        "packages/a",
        "packages",
        "data/7",
        "artifact/1",
        "a\0b",
    ],
)
def test_nothing_outside_the_folders_is_served(server: Server, path: str) -> None:
    assert server.file(path) is None
    if "\0" not in path:
        assert answer(server, path)[0] == 404


def test_without_the_secret_part_of_the_address_or_with_another_host_nobody_gets_anything(server: Server) -> None:
    assert len(server.address.split("/")[3]) >= 32
    assert answer(server, "page.html", token="x")[0] == 404
    assert answer(server, "page.html", token="")[0] == 404
    assert answer(server, "page.html", host="evil.example")[0] == 404, "as after rebinding a name"
    assert answer(server, "page.html", host=server.host)[0] == 200


def test_two_servers_have_other_secrets(server: Server, tmp_path: Path) -> None:
    other = Server({"": tmp_path / "own"})
    try:
        assert other.address.split("/")[3] != server.address.split("/")[3]
    finally:
        other.close()


def test_it_listens_on_the_loopback_alone(server: Server) -> None:
    assert server.host.startswith("127.0.0.1:")
    assert server._http.socket.getsockname()[0] == "127.0.0.1"
    assert vars(_Handler)["disable_nagle_algorithm"], "or small answers wait for 40 ms"


def test_data_goes_once_and_comes_back_once(server: Server) -> None:
    server.send(7, [b"abc", b"", b"de"])
    assert answer(server, "data/7")[:2] == (200, b"abcde")
    assert answer(server, "data/7", method="POST", body=b"outputs")[0] == 204
    assert server.received(7) == b"outputs"
    assert server.received(7) == b""
    assert answer(server, "data/7")[0] == 404
    assert answer(server, "data/7", method="POST", body=b"unasked")[0] == 404
    assert server.received(7) == b""


def test_a_single_file_is_served_under_its_path(server: Server, tmp_path: Path) -> None:
    server.files["artifact/3"] = tmp_path / "secret.txt"
    assert answer(server, "artifact/3")[:2] == (200, b"secret")
    assert not server.served, "it is no file of a package"
