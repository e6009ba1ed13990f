"""Chromium, found and driven without a library: over the pipe of its DevTools, so that no port is open.

Source: the DevTools protocol, https://chromedevtools.github.io/devtools-protocol; each message ends with a zero byte.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import fcntl
import functools
import itertools
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.api import cache
from bench.api.errors import ArtifactError
from bench.api.program import BROWSER, die_with_parent

_SYSTEM_FLAGS = Path("/etc/chromium.d")
_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
_PLAYWRIGHT = "chromium-[0-9]*/chrome-linux*/chrome"
_VERSION_S = 30.0
_ENDING_S = 5.0
_ATTACHING_S = 20.0
_EMPTY = "about:blank"
_SOCKET = "SingletonSocket"
_MOST_CHUNK = 1 << 16
_LONGEST_ANSWER = 1 << 26
_MOST_LINES = 50
_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    # Nothing that slows down a page because nobody looks at it.
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    "--disable-hang-monitor",
    "--disable-ipc-flooding-protection",
    # Nothing that the browser does for itself beside the page: a spare renderer, updates, reports, extensions.
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-component-extensions-with-background-pages",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-features=SpareRendererForSitePerProcess,Translate,OptimizationHints,MediaRouter,"
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,AiModeOmniboxEntryPoint",
    "--disable-sync",
    "--metrics-recording-only",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
    "--password-store=basic",
    # No network but the loopback, beside the namespace in which the worker is.
    "--disable-quic",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--disable-dev-shm-usage",  # containers have little of it
    "--js-flags=--expose-gc",
)
NO_SANDBOX = "--no-sandbox"
"""As root, Chromium starts with this flag only."""


def path() -> str | None:
    """The browser: that which `--browser` names, Chromium or Chrome on the PATH, or the newest that playwright has."""
    if named := os.environ.get(BROWSER):
        return named
    for name in _NAMES:
        if (program := shutil.which(name)) is not None:
            return program
    folder = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path("~/.cache/ms-playwright").expanduser())
    of_playwright = sorted((int(file.parts[-3].rpartition("-")[2]), file) for file in folder.glob(_PLAYWRIGHT))
    return str(of_playwright[-1][1]) if of_playwright else None


def lacking() -> str | None:
    """Why there is no browser, with the command that mends it; None where there is one."""
    program = path()
    if program is None:
        return "no Chromium found; `apt-get install chromium`, or --browser PATH"
    if shutil.which(program) is None:
        return f"no browser at {program}; `apt-get install chromium`, or another --browser PATH"
    return None if _version_of(program) else f"{program} does not tell its version: it is no Chromium"


def version() -> str:
    """The version of the browser, such as `156.0.8078.108`; empty where there is none."""
    program = path()
    return "" if program is None else _version_of(program)


def build() -> str:
    """A digest of which build of its version the browser is, and of flags that the system has for all its users.

    Debian's is a script that reads flags from files beside it.
    """
    program = shutil.which(path() or "")
    return "" if program is None else _build_of(Path(program))


@functools.cache
def _build_of(program: Path) -> str:
    with program.open("rb") as file:
        is_script = file.read(2) == b"#!"
    parts = [program, *sorted(_SYSTEM_FLAGS.glob("*"))] if is_script else []
    texts = [file.read_text(errors="replace") for file in parts if file.is_file()]
    return cache.digest([_told_version(str(program)), *texts])[:8]


def _version_of(program: str) -> str:
    version = re.search(r"\d+(\.\d+){3}", _told_version(program))
    return version.group() if version else ""


@functools.cache
def _told_version(program: str) -> str:
    """What a program prints of its version; empty where it cannot be run or does not end."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=_VERSION_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def command(*more: str) -> list[str]:
    """The browser with its flags, but for the folder of its profile."""
    return [path() or _NAMES[0], *_FLAGS, *([NO_SANDBOX] if os.geteuid() == 0 else []), *more]


class Browser:
    """A running browser with an empty profile, which is removed when it ends.

    Attributes:
        lines: the last lines that the page wrote to its console, and errors that nothing in it caught.
    """

    def __init__(self, program: Sequence[str]) -> None:
        self.lines: collections.deque[str] = collections.deque(maxlen=_MOST_LINES)
        self._numbers = itertools.count(1)
        self._buffer = bytearray()
        self._loaded: set[str] = set()
        self._crash, self._is_closed = "", False
        self._deadline: float | None = None
        self._profile = tempfile.mkdtemp(prefix="browser-")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the browser)
        theirs_in, self._writes = os.pipe()
        self._reads, theirs_out = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*program, f"--user-data-dir={self._profile}", _EMPTY],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._log,
                env=_variables(self._profile),
                preexec_fn=functools.partial(_begin, theirs_in, theirs_out),
                close_fds=False,  # it is told to use descriptors 3 and 4; none of this process is inheritable
            )
        except (OSError, subprocess.SubprocessError) as error:
            self._remove_profile()
            self._log.close()
            for descriptor in (self._reads, self._writes):
                os.close(descriptor)
            raise ArtifactError(f"the browser does not start: {error}") from error
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        atexit.register(self.close)  # of a worker that is killed, the keeper removes the profile
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        """Find the browser's one page, to speak with it."""
        self.product = str(self.call("Browser.getVersion")["product"])
        target = self._page()
        self._session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Inspector", "Page", "Runtime"):
            self.on_page(f"{domain}.enable")
        self.on_page("Page.setLifecycleEventsEnabled", enabled=True)

    def _page(self) -> dict[str, Any]:
        """The empty page with which the browser begins; it may answer before that is there.

        Raises:
            ArtifactError: there is none.
        """
        end = time.monotonic() + _ATTACHING_S
        while time.monotonic() < end:
            for target in self.call("Target.getTargets")["targetInfos"]:
                if target["type"] == "page" and target.get("url", _EMPTY) == _EMPTY:
                    page: dict[str, Any] = target
                    return page
            time.sleep(0.01)
        raise ArtifactError(f"the browser has no empty page after {_ATTACHING_S:g} s")

    @property
    def pid(self) -> int:
        """The browser's own process, above that of the page."""
        return self._process.pid

    def call(self, method: str, *, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol.

        Raises:
            ArtifactError: the browser refuses, the page crashed, or the browser ended.
        """
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        text = json.dumps(message if session is None else {**message, "sessionId": session}).encode() + b"\0"
        try:
            while text:
                text = text[os.write(self._writes, text) :]
        except BrokenPipeError:
            raise self._ended() from None
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise ArtifactError(f"the browser refuses {method}: {answer['error'].get('message')}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def on_page(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the page's part of the protocol; see `call`. A page that crashed would never answer."""
        if self._crash:
            raise ArtifactError(self._crash)
        return self.call(method, session=self._session, **parameters)

    def open(self, address: str) -> None:
        """Go to an address, and wait until the page and its modules are loaded.

        Raises:
            ArtifactError: it cannot be opened.
        """
        answer = self.on_page("Page.navigate", url=address)
        if "errorText" in answer:
            raise ArtifactError(f"the page cannot be opened: {answer['errorText']}")
        while answer["loaderId"] not in self._loaded:  # the empty page from before may be loaded only now, too
            self._note(self._read())

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page, once its promise has one.

        Raises:
            ArtifactError: it throws, or the page crashed.
        """
        answer = self.on_page("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise ArtifactError(f"in the page: {_of_exception(answer['exceptionDetails'])}")
        return answer["result"].get("value")

    def renderers(self) -> dict[int, float]:
        """The processes that run pages, with the seconds of processor time of each."""
        processes = self.call("SystemInfo.getProcessInfo")["processInfo"]
        return {each["id"]: each["cpuTime"] for each in processes if each["type"] == "renderer"}

    def close(self) -> None:
        """End the browser and all its processes, also one that does not answer, and remove its profile; once."""
        if self._is_closed:
            return
        self._is_closed = True
        atexit.unregister(self.close)
        self._deadline = time.monotonic() + _ENDING_S
        with contextlib.suppress(ArtifactError, OSError):
            self.call("Browser.close")
        try:
            self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with contextlib.suppress(ProcessLookupError):  # what it started ends after it
            os.killpg(self._process.pid, signal.SIGKILL)
        for descriptor in (self._reads, self._writes):
            os.close(descriptor)
        self._log.close()
        self._remove_profile()

    def _remove_profile(self) -> None:
        """Remove the profile, and the folder of a socket that a browser that is killed leaves beside it.

        That folder is no part of the profile because the address of a socket is short.
        """
        with contextlib.suppress(OSError):
            of_socket = Path(self._profile, _SOCKET).readlink().parent
            if of_socket.parent == Path(self._profile).parent:
                shutil.rmtree(of_socket, ignore_errors=True)
        end = time.monotonic() + _ENDING_S  # its other processes end after it, and may still write
        while Path(self._profile).exists() and time.monotonic() < end:
            shutil.rmtree(self._profile, ignore_errors=True)

    def _read(self) -> dict[str, Any]:
        while (end := self._buffer.find(b"\0")) < 0:
            self._wait()
            data = os.read(self._reads, _MOST_CHUNK)
            if not data:
                raise self._ended()
            self._buffer += data
            if len(self._buffer) > _LONGEST_ANSWER:
                raise ArtifactError("the answer of the page has no end")
        message: dict[str, Any] = json.loads(self._buffer[:end])
        del self._buffer[: end + 1]
        return message

    def _wait(self) -> None:
        """Wait for output until the deadline, where there is one.

        Raises:
            TimeoutError: there was none.
        """
        if self._deadline is None:
            return
        poll = select.poll()
        poll.register(self._reads, select.POLLIN)
        if not poll.poll(1000 * max(0.0, self._deadline - time.monotonic())):
            raise TimeoutError

    def _note(self, event: dict[str, Any]) -> None:
        """Keep what an event says.

        Raises:
            ArtifactError: the page crashed.
        """
        name, values = str(event.get("method", "")), event.get("params", {})
        if name == "Inspector.targetCrashed":
            self._crash = f"the page crashed: its process ended{self.last_words()}"
            raise ArtifactError(self._crash)
        if name == "Page.lifecycleEvent" and values["name"] == "load":
            self._loaded.add(values["loaderId"])
        elif name == "Runtime.consoleAPICalled":
            self.lines.append(" ".join(str(each.get("value", each.get("description", ""))) for each in values["args"]))
        elif name == "Runtime.exceptionThrown":
            self.lines.append(_of_exception(values["exceptionDetails"]))

    def last_words(self) -> str:
        """The last line of the page's console, for a reason; empty where it has none."""
        return f" ({self.lines[-1]})" if self.lines else ""

    def _ended(self) -> ArtifactError:
        try:
            status: object = self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            status = "unknown"
        self._log.seek(0)
        said = self._log.read()[-_MOST_CHUNK:].decode(errors="replace").strip().rpartition("\n")[2]
        return ArtifactError(f"the browser ended, with status {status}" + (f" ({said})" if said else ""))


def _begin(reads: int, writes: int) -> None:
    """In the new process: put the two ends of the pipes where the browser looks for them."""
    die_with_parent()
    os.setpgid(0, 0)
    for number, descriptor in enumerate([fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (reads, writes)], start=3):
        os.dup2(descriptor, number)
        os.close(descriptor)


def _variables(folder: str) -> dict[str, str]:
    """The environment of the browser, whose caches are with its profile."""
    own = ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")
    return {**os.environ, **dict.fromkeys(own, folder), "DBUS_SESSION_BUS_ADDRESS": "disabled:"}


def _of_exception(details: dict[str, Any]) -> str:
    thrown = details.get("exception", {})
    return str(thrown.get("description") or thrown.get("value") or details.get("text", "an error"))
