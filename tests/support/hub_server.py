"""A stand-in for the Hugging Face Hub on this machine: its interface of models, and another host for large files."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

LARGE = 1000
"""Bytes from which on a file is kept as Git LFS keeps it: on the other host."""


def commit(number: int) -> str:
    """The hash of a commit."""
    return f"{number:040x}"


@dataclasses.dataclass(kw_only=True)
class Request:
    """A request that came.

    Attributes:
        host: `hub` or `cdn`.
        path: its path with the query.
        headers: its headers, in lower case.
    """

    host: str
    path: str
    headers: dict[str, str]


Hook = Callable[["Handler", str], bool]
"""Answers a request for a path in its own way, or returns False."""


class Handler(BaseHTTPRequestHandler):
    """Answers as the hub does, unless a hook does."""

    protocol_version = "HTTP/1.1"
    hub: ClassVar[StandIn]
    host: ClassVar[str]

    def log_message(self, format: str, *given: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.hub.requests.append(Request(host=self.host, path=self.path, headers=headers))
        self.close_connection = True
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if not any(hook(self, self.path) for hook in self.hub.hooks):
                self._answer(urlsplit(self.path).path, parse_qs(urlsplit(self.path).query))

    def _answer(self, path: str, query: dict[str, list[str]]) -> None:
        if self.host == "cdn":
            return self.send_file(self.hub.large[path.rpartition("/")[2]])
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path):
            revision = unquote(found[2])
            if found[1] not in self.hub.repositories:
                return self.refuse(404, "RepoNotFound")
            sha = self.hub.refs.get(revision, revision)
            known = sha in self.hub.repositories[found[1]]
            return self.send_json({"id": found[1], "sha": sha}) if known else self.refuse(404, "RevisionNotFound")
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/(.+)", path):
            pages = self.hub.pages(found[1], found[2])
            number = int(query.get("cursor", ["0"])[0])
            more = number + 1 < len(pages)
            link = f'<https://elsewhere.example/x?recursive=true&cursor={number + 1}>; rel="next"'
            return self.send_json(pages[number], {"Link": link} if more else {})
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            content = self.hub.repositories[found[1]][found[2]][unquote(found[3])]
            if len(content) < LARGE:
                return self.send_file(content)
            return self.redirect(f"{self.hub.cdn}/{hashlib.sha256(content).hexdigest()}?signature=secret")
        return self.refuse(404, "EntryNotFound")

    def send_json(self, value: Any, headers: Mapping[str, str] | None = None) -> None:
        self.send_file(json.dumps(value).encode(), headers)

    def redirect(self, target: str) -> None:
        self.send_response(302)
        self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def refuse(self, status: int, code: str = "") -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send_file(self, content: bytes, headers: Mapping[str, str] | None = None) -> None:
        begin = 0
        if asked := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or ""):
            begin = int(asked[1])
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - begin))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content[begin:])


class StandIn:
    """The hub and the other host.

    Attributes:
        url, cdn: their addresses.
        repositories: the content of files by path, by commit, by repository.
        refs: commits by the names of branches and tags.
        requests: the requests that came, in order.
        hooks: are asked first.
        page_size: files of a page of a list.
        tells: changes the objects of a list before they are sent.
    """

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, dict[str, bytes]]] = {}
        self.refs: dict[str, str] = {}
        self.requests: list[Request] = []
        self.hooks: list[Hook] = []
        self.page_size = 2
        self.tells: Callable[[list[dict[str, Any]]], list[Any]] = lambda items: items
        self._servers = []
        for host in ("hub", "cdn"):
            handler = type("Handler", (Handler,), {"hub": self, "host": host})
            server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
            self._servers.append(server)
        self.url, self.cdn = (f"http://127.0.0.1:{server.server_port}" for server in self._servers)

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def add(self, repository: str, files: dict[str, bytes], *, number: int = 1, ref: str = "main") -> str:
        """A commit of a repository, which a branch or a tag stands for from now on; its hash."""
        self.repositories.setdefault(repository, {})[commit(number)] = files
        self.refs[ref] = commit(number)
        return commit(number)

    @property
    def large(self) -> dict[str, bytes]:
        """The files of the other host by their digest."""
        commits = [files for repository in self.repositories.values() for files in repository.values()]
        every = [content for files in commits for content in files.values() if len(content) >= LARGE]
        return {hashlib.sha256(content).hexdigest(): content for content in every}

    def pages(self, repository: str, sha: str) -> list[list[Any]]:
        items = self.tells([told(path, content) for path, content in self.repositories[repository][sha].items()])
        return [items[at : at + self.page_size] for at in range(0, len(items), self.page_size)] or [[]]

    def asked(self, host: str | None = None) -> list[str]:
        """Paths of the requests, of one host or of both."""
        return [request.path for request in self.requests if host in (None, request.host)]


def told(path: str, content: bytes) -> dict[str, Any]:
    """A file as the hub's list has it."""
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    found: dict[str, Any] = {"type": "file", "path": path, "size": len(content), "oid": blob}
    if len(content) >= LARGE:
        found["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
    return found


@contextlib.contextmanager
def running() -> Iterator[StandIn]:
    """A stand-in that answers within the `with` block."""
    hub = StandIn()
    try:
        yield hub
    finally:
        hub.close()
