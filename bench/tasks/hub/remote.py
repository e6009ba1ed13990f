"""Requests to the hub: over https, with few redirects, a token for the hub's own host alone, and an end to every wait.

A client of one's own rather than huggingface_hub 2.4, which sends the token to whichever host the link of a next page
names, writes all that a server sends before it compares the size, compares no digest, waits as long as `Retry-After`
says, and takes files from other hosts by a protocol of theirs.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import ipaddress
import json
import re
import socket
import ssl
import string
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from bench.api.errors import InputError
from bench.api.version import version
from bench.tasks.failures import one_line

CONNECT_S = 10.0
"""Time for a connection, and for the next bytes of an answer."""
PATIENCE_S, LEAST_BYTES = 20.0, 20 * 2**10
"""An answer of which fewer bytes come in that time has broken off."""
ANSWER_S, MOST_ANSWER_BYTES = 60.0, 16 * 2**20
"""Time and size of an answer that is read as JSON, at most."""
_CHUNK_BYTES = 2**20
MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_NEXT = re.compile(r'<([^<>]*)>\s*;\s*rel="?next"?')
"""The address of the next page in a header `Link`."""

ENDED_EARLY = "the answer ended early"
_NO_ADDRESS = "HF_ENDPOINT is no address of a hub; it is one like https://huggingface.co"


class BrokenOffError(Exception):
    """The hub does not answer, or its answer has broken off: the same request may succeed another time."""


class StatusError(Exception):
    """The hub refuses a request.

    Args:
        status: the HTTP status.
        code: the reason in the hub's own words, such as `RepoNotFound`; empty where there is none.
    """

    def __init__(self, status: int, code: str = "") -> None:
        super().__init__(f"status {status}")
        self.status, self.code = status, code


class Answer:
    """The body of an answer, which is read once.

    Attributes:
        status: the HTTP status, 200 or 206.
        headers: the headers.
    """

    def __init__(self, response: http.client.HTTPResponse, watch: _Watch) -> None:
        self.status, self.headers = response.status, response.headers
        self._response, self._watch = response, watch

    @property
    def num_bytes(self) -> int | None:
        """Bytes of the body as they are announced; None where they are not, as of a body in chunks."""
        if (self.headers.get("Transfer-Encoding") or "").lower() == "chunked":
            return None
        length = self.headers.get("Content-Length") or ""
        return int(length) if re.fullmatch(r"[0-9]{1,18}", length) else None

    def chunks(self) -> Iterator[bytes]:
        """The body in parts.

        Raises:
            BrokenOffError: it has broken off.
        """
        before = self._watch.num_bytes
        with self._watch.as_broken_off():
            while chunk := self._response.read1(_CHUNK_BYTES):
                self._watch.num_bytes += len(chunk)
                yield chunk
        # `read1` raises nothing where a body ends before its length.
        if self.num_bytes is not None and self._watch.num_bytes - before < self.num_bytes:
            raise BrokenOffError(ENDED_EARLY)


class Hub:
    """A hub at its address.

    Args:
        endpoint: the address, with `https`; `http` is for this machine itself.
        token: is sent to that address and to no other; None for none.

    Raises:
        InputError: the address cannot be used.
    """

    def __init__(self, endpoint: str, token: str | None) -> None:
        self._endpoint, self._token = endpoint.rstrip("/"), token
        with _readable(_NO_ADDRESS):
            parts = urlsplit(self._endpoint)
        if not parts.hostname:
            raise InputError(_NO_ADDRESS)
        self.host, self._is_here = parts.netloc.rpartition("@")[2], _is_here(parts.hostname)
        self._check(self._endpoint)

    def json(self, place: str, query: str = "") -> tuple[Any, str | None]:
        """What the hub answers, and the query of its next page or None.

        Args:
            place: path of the resource, quoted.
            query: its query, quoted.

        Raises:
            InputError: the answer is too large, is no JSON, or the request leads elsewhere.
            StatusError, BrokenOffError: as `opened`.
        """
        content, end_s = bytearray(), time.monotonic() + ANSWER_S
        with self.opened(f"{place}?{query}" if query else place) as answer:
            for chunk in answer.chunks():
                content += chunk
                if len(content) > MOST_ANSWER_BYTES:
                    most = f"{MOST_ANSWER_BYTES >> 20} MiB"
                    raise InputError(f"{self.host} answers with more than {most}; that is refused")
                if time.monotonic() > end_s:
                    raise BrokenOffError(f"its answer takes longer than {ANSWER_S:g} s")
            following = _NEXT.search(answer.headers.get("Link") or "")
        try:
            document = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.host} answers with what is no JSON; is it a hub? HF_ENDPOINT names it") from error
        with _readable(f"{self.host} names a next page that is no address"):
            return document, urlsplit(following[1]).query if following else None

    @contextlib.contextmanager
    def opened(self, place: str, *, begin: int = 0) -> Iterator[Answer]:
        """The answer to a request, to be read within the `with` block.

        Args:
            place: path of the resource, quoted, with its query.
            begin: the byte from which on the resource is wanted.

        Raises:
            InputError: the request leads to an address that is not allowed, or the answer is in an encoding.
            StatusError: the hub refuses it.
            BrokenOffError: the hub cannot be reached, or the answer breaks off.
        """
        headers = {"Accept-Encoding": "identity", "User-Agent": f"inferometer/{version() or '0'}"}
        if begin:
            headers["Range"] = f"bytes={begin}-"
        with _Watch() as watch, contextlib.ExitStack() as stack:
            with watch.as_broken_off():
                response = stack.enter_context(self._answer(f"{self._endpoint}/{place}", headers, watch))
            if response.status not in (200, 206):
                raise StatusError(response.status, (response.headers.get("X-Error-Code") or "")[:100])
            if (response.headers.get("Content-Encoding") or "identity").lower() != "identity":
                raise InputError(f"{self.host} answers in an encoding that it was not asked for; that is refused")
            yield Answer(response, watch)

    def _answer(self, url: str, headers: Mapping[str, str], watch: _Watch) -> http.client.HTTPResponse:
        """The first answer that is no redirect; each address is checked before it is asked."""
        for _ in range(MOST_REDIRECTS + 1):
            self._check(url)
            request = urllib.request.Request(url, headers=dict(headers))
            if self._token is not None and _origin(url) == _origin(self._endpoint):
                request.add_unredirected_header("Authorization", f"Bearer {self._token}")
            response: http.client.HTTPResponse = self._opener(watch).open(request, timeout=CONNECT_S)
            if response.status not in _REDIRECTS:
                return response
            response.close()
            if (target := response.headers.get("Location")) is None:
                raise StatusError(response.status)
            with _readable(f"{self.host} leads to what is no address"):
                url = urljoin(url, quote(target, safe=string.punctuation))
        raise InputError(f"{self.host} leads from one address to another more than {MOST_REDIRECTS} times")

    def _check(self, url: str) -> None:
        """Refuse an address without https, but for a hub on this machine, which alone may lead to this machine."""
        with _readable(f"{self.host} leads to what is no address"):
            parts = urlsplit(url)
            place = f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
        if parts.username is not None or parts.password is not None:
            raise InputError(f"an address of the hub has a name or a password in it: {place}; a token goes to HF_TOKEN")
        if "%" in parts.netloc:  # a request would decode it, and go to another host than the one that is checked here
            raise InputError(f"{self.host} leads to what is no address")
        is_here = _is_here(parts.hostname)
        if not parts.hostname or parts.scheme not in (("https", "http") if is_here else ("https",)):
            raise InputError(
                f"the hub is reached over https alone, and {self.host} leads to {place}",
                fix="HF_ENDPOINT names another hub, beginning with https://",
            )
        if is_here and not self._is_here:
            raise InputError(f"{self.host} leads to this machine, {place}; that is not followed")

    def _opener(self, watch: _Watch) -> urllib.request.OpenerDirector:
        """An opener that knows http and https alone, follows no redirect and takes every status for an answer."""
        opener = urllib.request.OpenerDirector()
        if not self._is_here:
            opener.add_handler(urllib.request.ProxyHandler())
        opener.add_handler(_Http(watch))
        opener.add_handler(_Https(watch))
        return opener


class _Watch(contextlib.AbstractContextManager["_Watch"]):
    """Ends a connection over which too little comes, for a socket's own limit begins anew with each byte.

    Attributes:
        num_bytes: bytes of the body that have come.
    """

    def __init__(self) -> None:
        self.num_bytes = 0
        self._sock: socket.socket | None = None
        self._is_slow = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._sock is not None:
            self._sock.close()

    def follow(self, sock: socket.socket) -> None:
        """Watch a connection from now on, and no longer the one before; one that comes too late is ended at once.

        A duplicate is kept, for TLS takes the socket over, and its handshake is to be watched, too.
        """
        before, self._sock = self._sock, sock.dup()
        if before is not None:
            before.close()
        if self._is_slow:
            self._end()

    @contextlib.contextmanager
    def as_broken_off(self) -> Iterator[None]:
        """Turn what a connection raises into a `BrokenOffError`; an answer that was ended here has not come to its end.

        Raises:
            BrokenOffError: the connection failed, or was too slow.
        """
        try:
            yield
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise BrokenOffError(self._slow() or _reason(error)) from error
        if slow := self._slow():
            raise BrokenOffError(slow)

    def _slow(self) -> str | None:
        return f"fewer than {LEAST_BYTES >> 10} KiB came in {PATIENCE_S:g} s" if self._is_slow else None

    def _run(self) -> None:
        before = 0
        while not self._over.wait(PATIENCE_S):
            if self.num_bytes - before < LEAST_BYTES and self._sock is not None:
                self._is_slow = True
                self._end()
                return
            before = self.num_bytes

    def _end(self) -> None:
        """End the connection, for whoever waits for its next bytes."""
        with contextlib.suppress(OSError):  # it has ended by itself
            if self._sock is not None:
                self._sock.shutdown(socket.SHUT_RDWR)


class _Http(urllib.request.HTTPHandler):
    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_watched(http.client.HTTPConnection, self._watch), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, watch: _Watch) -> None:
        super().__init__(context=_certificates())
        self._watch = watch

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        connection_type = _watched(http.client.HTTPSConnection, self._watch)
        return self.do_open(connection_type, req, context=_certificates())


@functools.cache
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()


def _watched(kind: type[http.client.HTTPConnection], watch: _Watch) -> type[http.client.HTTPConnection]:
    """A kind of connection that tells a watch its socket: before a proxy answers, and before TLS begins."""

    class Watched(kind):  # type: ignore[misc, valid-type]
        @property
        def sock(self) -> socket.socket | None:
            return self._sock

        @sock.setter
        def sock(self, sock: socket.socket | None) -> None:
            self._sock = sock
            if sock is not None and not isinstance(sock, ssl.SSLSocket):  # TLS is over a socket that it follows
                watch.follow(sock)

    return Watched


@contextlib.contextmanager
def _readable(message: str) -> Iterator[None]:
    """Raise an InputError where an address cannot be parsed."""
    try:
        yield
    except ValueError as error:
        raise InputError(message) from error


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def _is_here(host: str | None) -> bool:
    """Whether a host is this machine by its name or number, in every form in which a connection takes it."""
    name = (host or "").rstrip(".")
    number: ipaddress.IPv4Address | ipaddress.IPv6Address
    try:
        number = ipaddress.ip_address(name)
    except ValueError:
        try:
            number = ipaddress.IPv4Address(socket.inet_aton(name))  # 127.1, 0x7f000001
        except (OSError, ValueError):
            return name == "localhost" or name.endswith(".localhost")
    if isinstance(number, ipaddress.IPv6Address):
        number = number.ipv4_mapped or number
    return number.is_loopback or number.is_unspecified


def _reason(error: Exception) -> str:
    """Why a connection failed, in a few words that name no address: those of other hosts are signed like a password."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    match cause:
        case socket.gaierror():
            return "its name cannot be resolved"
        case TimeoutError():
            return f"it did not answer within {CONNECT_S:g} s"
        case ConnectionRefusedError():
            return "it takes no connection"
        case http.client.InvalidURL() | UnicodeError():
            return "it leads to what is no address"
        case Exception():
            return one_line(cause)
    return str(cause)[:100]
