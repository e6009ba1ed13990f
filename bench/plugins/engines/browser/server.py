"""The server of a page: on the loopback, below a path that nobody can guess, with the headers that isolate a page.

A page has WebAssembly threads and a fine clock only where it is isolated from other origins.
Source: https://web.dev/articles/coop-coep
"""

from __future__ import annotations

import fcntl
import hmac
import http.server
import secrets
import socket
import struct
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
}
_OTHER_TYPE = "application/octet-stream"
HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'self' blob: data: 'unsafe-inline' 'unsafe-eval'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Of each answer."""
_LOOPBACK = "127.0.0.1"
_MOST_BYTES = 1 << 32
_CHUNK = 1 << 20
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1


class Server:
    """Serves packages and the page's own files, and exchanges arrays with the page.

    Args:
        folders: by the first part of a path, the folder whose files are served there.

    Attributes:
        files: by path, single files that are served, such as models.
        served: the files of folders that were asked for.
    """

    def __init__(self, folders: Mapping[str, Path]) -> None:
        bring_up_loopback()
        self.files: dict[str, Path] = {}
        self.served: set[Path] = set()
        self._folders = {name: folder.resolve() for name, folder in folders.items()}
        self._token = secrets.token_urlsafe(24)
        self._sent: dict[str, list[Any]] = {}
        self._received: dict[str, bytes] = {}
        self._http = http.server.ThreadingHTTPServer((_LOOPBACK, 0), type("_Handler", (_Handler,), {"owner": self}))
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        """Where the page's files are, with a slash at the end."""
        return f"http://{self.host}/{self._token}/"

    @property
    def host(self) -> str:
        """Address and port."""
        return f"{_LOOPBACK}:{self._http.server_address[1]}"

    def send(self, number: int, parts: Iterable[Any]) -> None:
        """Have data ready that the page fetches from `data/NUMBER`, and take what it posts there."""
        self._sent[f"data/{number}"] = list(parts)

    def received(self, number: int) -> bytes:
        """What the page posted; nothing is ready any more."""
        self._sent.pop(f"data/{number}", None)
        return self._received.pop(f"data/{number}", b"")

    def close(self) -> None:
        """Stop serving."""
        self._http.shutdown()
        self._http.server_close()

    def path_below(self, target: str) -> str | None:
        """The path below the secret part of an address; None where that part is wrong."""
        token, _, path = target.partition("?")[0].removeprefix("/").partition("/")
        return path if hmac.compare_digest(token.encode(), self._token.encode()) else None

    def file(self, path: str) -> Path | None:
        """The file that is served under a path; None where there is none, or where it is outside its folder."""
        if path in self.files:
            return self.files[path]
        name, _, rest = path.partition("/")
        folder = self._folders.get(name) if rest else self._folders.get("")
        try:
            file = (folder / (rest or name)).resolve(strict=True) if folder is not None else None
        except (OSError, ValueError):
            return None
        if file is None or folder is None or not file.is_relative_to(folder) or not file.is_file():
            return None
        self.served.add(file)
        return file

    def data(self, path: str) -> list[Any] | None:
        """What the page is to fetch under a path."""
        return self._sent.get(path)

    def take(self, path: str, data: bytes) -> None:
        """Keep what the page posted."""
        self._received[path] = data


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers the page, and nobody who does not know the secret part of its address."""

    owner: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        path = self._path()
        if path is None:
            return
        if (parts := self.owner.data(path)) is not None:
            self._answer(200, _OTHER_TYPE, sum(map(len, parts)), parts)
        elif (file := self.owner.file(path)) is not None:
            with file.open("rb") as content:
                length = file.stat().st_size
                self._answer(200, TYPES.get(file.suffix, _OTHER_TYPE), length, iter(lambda: content.read(_CHUNK), b""))
        else:
            self._answer(404)

    def do_POST(self) -> None:
        path = self._path()
        if path is None:
            return
        length = self.headers.get("Content-Length", "")
        if self.owner.data(path) is None or not length.isdecimal() or int(length) > _MOST_BYTES:
            self.close_connection = True
            self._answer(404)
            return
        self.owner.take(path, self.rfile.read(int(length)))
        self._answer(204)

    def _path(self) -> str | None:
        path = self.owner.path_below(self.path)
        if path is None or self.headers.get("Host") != self.owner.host:
            self.close_connection = True
            self._answer(404)
            return None
        return path

    def _answer(self, status: int, type_: str = _OTHER_TYPE, length: int = 0, parts: Iterable[Any] = ()) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", type_)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        for part in parts:
            self.wfile.write(part)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def bring_up_loopback() -> None:
    """Switch the loopback on in a network namespace of this process's own, where it is off at first.

    Source: netdevice(7).
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh", b"lo", 0).ljust(40, b"\0")
        flags = struct.unpack_from("16sh", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        if not flags & _IFF_UP:
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | _IFF_UP).ljust(40, b"\0"))
