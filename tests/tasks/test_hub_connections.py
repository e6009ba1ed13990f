"""A hub that hangs, drips, leads elsewhere or is not there: a line in seconds, and the token goes nowhere else."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from bench.api.errors import InputError
from bench.tasks.hub import remote
from support.hub_fixtures import Fetched
from support.hub_server import LARGE, Handler, StandIn, commit

NAME = "hf:org/net"
MODEL = bytes(range(256)) * (LARGE // 100)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("file:///etc/passwd", "reached over https alone, and .* leads to file://"),
        ("ftp://127.0.0.1/x", "reached over https alone, and .* leads to ftp://127.0.0.1"),
        ("data:,x", "reached over https alone"),
        (
            "http://example.org/x?signature=secret",
            r"leads to http://example\.org \(HF_ENDPOINT names another hub, beginning with https://\)$",
        ),
        ("https://user:secret@example.org/x", "has a name or a password in it: https://example.org"),
        ("https://[::1/x", "leads to what is no address"),
        ("https://example.org:x/y", "leads to what is no address"),
        ("https://%6cocalhost/x", "leads to what is no address"),
        ("https://127%2e0.0.1:8443/x", "leads to what is no address"),
    ],
)
def test_where_the_hub_may_not_lead(target: str, says: str, hub: StandIn, fetched: Fetched) -> None:
    hub.add("org/net", {"model.onnx": MODEL})
    hub.hooks.append(lambda handler, path: "/resolve/" in path and handler.redirect(target) is None)
    with pytest.raises(InputError, match=says) as refused:
        fetched(NAME)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:8000", "127.9.9.9", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1."),
        *("0.0.0.0:8443", "0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:0.0.0.0]", "[0:0:0:0:0:0:0:1]"),
        *("localhost", "LocalHost:80", "localhost.", "a.localhost", "a.localhost."),
    ],
)
def test_a_hub_elsewhere_does_not_lead_to_this_machine(host: str) -> None:
    hub = remote.Hub("https://hub.example.org", None)
    for scheme in ("http", "https"):
        with pytest.raises(InputError, match=r"leads to this machine, .*; that is not followed"):
            hub._check(f"{scheme}://{host}/x")
    assert remote.Hub(f"http://{host}", None).host == host, "the user may name it"


@pytest.mark.parametrize(
    "host", ["cdn.example.org", "1.2.3.4", "[2001:db8::1]", "localhost.example.org", "mylocalhost"]
)
def test_a_hub_elsewhere_may_lead_elsewhere(host: str) -> None:
    remote.Hub("https://hub.example.org", None)._check(f"https://{host}/x")


@pytest.mark.parametrize("part", [b"", b"[", b'[{"type": "file"'])
def test_an_answer_that_ends_before_its_length(part: bytes, hub: StandIn, fetched: Fetched) -> None:
    """It is told from an answer that is no list of a hub."""
    hub.add("org/net", {"model.onnx": MODEL})

    def cut(handler: Handler, path: str) -> bool:
        if "/tree/" not in path:
            return False
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(part)
        return True

    hub.hooks.append(cut)
    with pytest.raises(InputError, match=r"^cannot reach 127\.0\.0\.1:\d+: the answer ended early; with --offline"):
        fetched(NAME)
    hub.hooks.clear()
    assert fetched(NAME).read_bytes() == MODEL


def test_the_length_of_an_answer_in_chunks_is_that_of_its_chunks(hub: StandIn, fetched: Fetched) -> None:
    """A `Content-Length` beside them counts for nothing."""
    hub.add("org/net", {"model.onnx": MODEL})

    def chunks(handler: Handler, path: str) -> bool:
        if "/revision/" not in path:
            return False
        body = json.dumps({"sha": commit(1)}).encode()
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        return True

    hub.hooks.append(chunks)
    assert fetched(NAME).read_bytes() == MODEL


def test_a_circle_of_redirects(hub: StandIn, fetched: Fetched) -> None:
    hub.hooks.append(lambda handler, path: handler.redirect(hub.url + path) is None)
    with pytest.raises(InputError, match="leads from one address to another more than 5 times"):
        fetched(NAME)
    assert len(hub.asked()) == remote.MOST_REDIRECTS + 1


def test_a_redirect_on_the_hub_keeps_the_token(hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository that was renamed; the name of the next page's host is not taken either."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.add("org/net", {"model.onnx": MODEL, "a": b"", "b": b""})

    def renamed(handler: Handler, path: str) -> bool:
        if "old" not in path:
            return False
        handler.redirect(path.replace("org/old", "org/net"))
        return True

    hub.hooks.append(renamed)
    assert fetched("hf:org/old").read_bytes() == MODEL
    assert {request.headers.get("authorization") for request in hub.requests if request.host == "hub"} == {
        "Bearer hf_secret"
    }
    assert {request.headers.get("authorization") for request in hub.requests if request.host == "cdn"} == {None}


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        ("http://hub.example.org", "reached over https alone"),
        ("file:///tmp", "HF_ENDPOINT is no address"),
        ("hub.example.org", "HF_ENDPOINT is no address"),
        ("ftp://hub.example.org", "reached over https alone"),
        ("https://user:secret@hub.example.org", "has a name or a password in it"),
        ("https://[", "is no address"),
    ],
)
def test_addresses_of_a_hub(
    endpoint: str, says: str, hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(InputError, match=says) as refused:
        fetched(NAME)
    assert "secret" not in str(refused.value)


def test_a_hub_that_cannot_be_reached(hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(InputError, match=r"^cannot reach 127\.0\.0\.1:\d+: it takes no connection; with --off"):
            fetched(NAME)
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")
    with pytest.raises(InputError, match=r"^cannot reach hub\.invalid: "):
        fetched(NAME)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for `localhost` that nobody signed, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl, which makes a certificate")
    key, signed = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", signed),
        ],
        check=True,
        capture_output=True,
    )
    return signed, key


def test_a_certificate_that_nobody_signed(
    hub: StandIn, fetched: Fetched, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with socket.create_server(("localhost", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                context.wrap_socket(listening.accept()[0], server_side=True)

        threading.Thread(target=serve, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"https://localhost:{listening.getsockname()[1]}")
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        with pytest.raises(InputError, match=r"^cannot reach localhost:\d+: .*CERTIFICATE_VERIFY_FAILED"):
            fetched(NAME)


def test_a_hub_that_says_nothing(hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "CONNECT_S", 0.2)
    done = threading.Event()
    hub.hooks.append(lambda handler, path: done.wait(30))
    with pytest.raises(InputError, match=r"^cannot reach 127\.0\.0\.1:\d+: it did not answer within 0\.2 s"):
        fetched(NAME)
    done.set()


class Dripping(Protocol):
    def __call__(self, begin: bytes, part: bytes, context: ssl.SSLContext | None = None) -> int: ...


@pytest.fixture
def dripping(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dripping]:
    """Starts a server that sends a beginning and then a part now and then, whatever is asked; gives its port.

    Each part comes in time for a socket's own limit, and after some hundred of them the server ends, so that a client
    that waits for ever fails a test rather than hanging it.
    """
    monkeypatch.setattr(remote, "PATIENCE_S", 0.3)
    done = threading.Event()
    with contextlib.ExitStack() as stack:

        def start(begin: bytes, part: bytes, context: ssl.SSLContext | None = None) -> int:
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            if context is not None:
                listening = stack.enter_context(context.wrap_socket(listening, server_side=True))

            def serve() -> None:
                with contextlib.suppress(OSError):
                    while True:
                        with listening.accept()[0] as connection, contextlib.suppress(OSError):
                            connection.sendall(begin)
                            for _ in range(300):
                                if done.wait(0.02):
                                    return
                                connection.sendall(part)

            threading.Thread(target=serve, daemon=True).start()
            return int(listening.getsockname()[1])

        yield start
        done.set()


TOO_SLOW = r"^cannot reach .*: fewer than 20 KiB came in 0\.3 s; with --offline"


def test_a_handshake_that_comes_byte_by_byte(
    dripping: Dripping, hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03"  # of 16 KiB, which begins as a ServerHello does
    monkeypatch.setenv("HF_ENDPOINT", f"https://127.0.0.1:{dripping(record, bytes(1))}")
    with pytest.raises(InputError, match=TOO_SLOW):
        fetched(NAME)


def test_answers_over_tls(dripping: Dripping, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """One comes at once, and one byte by byte."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    monkeypatch.setattr(remote, "_certificates", lambda: trusting)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: "
    fast, slow = (dripping(head + rest, b" ", context) for rest in (b"4\r\n\r\n[12]", b"1000000\r\n\r\n"))
    assert remote.Hub(f"https://localhost:{fast}", None).json("api") == ([12], None)
    with pytest.raises(remote.BrokenOffError, match=r"^fewer than 20 KiB came in 0\.3 s$"):
        remote.Hub(f"https://localhost:{slow}", None).json("api")


def test_a_proxy_that_answers_byte_by_byte(
    dripping: Dripping, hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = dripping(b"HTTP/1.1 200 Connection established\r\nX-Long: ", b"x")
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")
    with pytest.raises(InputError, match=TOO_SLOW):
        fetched(NAME)


def test_a_connection_after_the_time_is_up_is_ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a redirect, which came at the last moment: nothing would end it any more."""
    monkeypatch.setattr(remote, "PATIENCE_S", 0.05)
    first, second = socket.socketpair(), socket.socketpair()
    with contextlib.ExitStack() as stack, remote._Watch() as watch:
        for end in (*first, *second):
            stack.enter_context(end).settimeout(5)
        for end in (first[0], second[0]):
            watch.follow(end)
            assert end.recv(1) == b""


@pytest.mark.parametrize("where", ["head", "continue", "body", "chunks"])
def test_a_hub_that_sends_a_byte_now_and_then(
    where: str, hub: StandIn, fetched: Fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes in time for a socket's own limit."""
    monkeypatch.setattr(remote, "PATIENCE_S", 0.3)
    done = threading.Event()

    def drip(handler: Handler, path: str) -> bool:
        begin, part = {
            "head": (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"),
            "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
            "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b" "),
            "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
        }[where]
        with contextlib.suppress(OSError):
            handler.wfile.write(begin)
            while not done.wait(0.02):
                handler.wfile.write(part)
        return True

    hub.hooks.append(drip)
    with pytest.raises(InputError, match=r"^cannot reach .*: fewer than 20 KiB came in 0\.3 s; with --offline"):
        fetched(NAME)
    done.set()
