"""Texts without the places of this machine and its user: what is stored of a failure may be sent to others.

Messages and tracebacks name files. Which file of a project or of a package failed tells why a cell has no figures; in
which folder the project lies, and whose folder it is, does not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import re
import socket
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.api import cache

HOME, TEMPORARY, CACHE, ELSEWHERE, NAME = "~", "<temporary>", "<cache>", "...", "<name>"
"""What stands for folders and names that a text must not have."""
_SYSTEM = frozenset({"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "usr"})
"""Top folders that tell of no person and no project."""
_USUAL = frozenset(
    {
        "Users",
        "Volumes",
        "data",
        "home",
        "mnt",
        "media",
        "nfs",
        "opt",
        "private",
        "root",
        "scratch",
        "srv",
        "tmp",
        "var",
    }
    | {"app", "content", "work", "workspace", "workspaces"}
)
"""Top folders of people's files, whether this machine has them or not."""
_ACCOUNTS = frozenset(
    {"admin", "bench", "guest", "home", "nobody", "root", "runner", "test", "ubuntu", "user", "users"}
)
"""Names of accounts that tell of nobody, and are words of messages."""
_SHORTEST_NAME, _SHORT_NAME = 2, 3
"""Fewest characters of a name that is left out, and most characters of one that stays where it is part of a path."""
_PART = r"[^\\/\s\"'`:;,()\[\]{}<>|*?]+"
_SEPARATOR = r"[\\/]+"
BEGIN = r"(?:~|\b[A-Za-z]:|(?<![\w.~\\/>])(?<!:(?=//)))"
"""The beginning of an absolute path, before its first separator; not that of a relative path or of a URL."""
_LOGIN = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*)://[^\s/@\"'`]+@")
_PACKAGES = re.compile(rf"(?:{BEGIN}{_SEPARATOR}|\.[\\/])(?:{_PART}{_SEPARATOR})*?(?:site|dist)-packages{_SEPARATOR}")
_STANDARD = re.compile(rf"{BEGIN}{_SEPARATOR}(?:{_PART}{_SEPARATOR})*?lib(?:64)?{_SEPARATOR}(python3\.\d+){_SEPARATOR}")
_USERS = re.compile(
    rf"(?:\b[A-Za-z]:)?(?<![\\/]){_SEPARATOR}(?:home|Users){_SEPARATOR}{_PART}|(?<![\w.])/root(?![\w.-])"
)
_QUOTED = re.compile(r"(?<=[\"'`])(?P<begin>~|[A-Za-z]:|)[\\/]+(?P<path>[^\\/\"'`\n][^\"'`\n]*)(?=[\"'`])")
_BARE = re.compile(rf"(?P<begin>{BEGIN}){_SEPARATOR}(?P<path>(?:{_PART}{_SEPARATOR})*{_PART})")
_IN_TEMPORARY = re.compile(rf"{TEMPORARY}/(?:{_PART}{_SEPARATOR})+(?={_PART})")
FILE = re.compile(
    r"\.(?:py|pyc|so|dll|dylib|onnx|ort|pt|pt2|pth|npz|npy|h5|hdf5|keras|tflite|xml|bin|mnn|mlir|json|jsonl|ya?ml|toml"
    r"|safetensors|pkl|joblib|ubj|log|txt|cfg|c|cc|cpp|h|hpp|pte|vmfb|csv|parquet|png|jpe?g)(?:\.\d+)*$"
)
"""The end of a file's name; operators and tensors may have names with `/` in them, which are no paths."""


def without_places(value: Any, *, system: bool = True) -> Any:
    """A value of JSON in whose texts no absolute path, home folder, user or host is named.

    Paths become relative to the project (the working folder), to the folder of installed packages or to this package;
    of any other path the last part stays. A text that only looks like a path, such as `/encoder/layer.0/MatMul` of a
    node, stays as it is.

    Args:
        value: a text, or lists and mappings with texts in them; keys stay as they are.
        system: whether paths of the system stay, such as `/usr/lib/libm.so`.
    """
    return _Places.here(system=system).left_out_of(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Places:
    """The places and names that are left out of texts.

    Attributes:
        folders: folders of this process, the longest path first, each with what stands for it.
        names: patterns of the names of this machine and its user.
        tops: names of folders at the root of a file system that begin a path.
    """

    folders: tuple[tuple[re.Pattern[str], str], ...]
    names: tuple[re.Pattern[str], ...]
    tops: frozenset[str]

    @classmethod
    def here(cls, *, system: bool) -> _Places:
        """The places of this process and machine."""
        tops = _USUAL
        with contextlib.suppress(OSError):
            tops |= {path.name for path in Path("/").iterdir()}
        longest_first = sorted(_folders(), key=lambda item: -len(item[0]))
        return cls(
            folders=tuple((re.compile(rf"{re.escape(path)}(?![\w.-])[\\/]*"), new) for path, new in longest_first),
            names=tuple(_names()),
            tops=tops - _SYSTEM if system else tops | _SYSTEM,
        )

    def left_out_of(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self.left_out_of(member) for key, member in value.items()}
        if isinstance(value, (list, tuple)):
            return [*map(self.left_out_of, value)]
        return self._left_out_of_text(value) if isinstance(value, str) else value

    def _left_out_of_text(self, text: str) -> str:
        text = _LOGIN.sub(r"\1://", text)
        if "/" in text or "\\" in text:
            for folder, stand_in in self.folders:
                text = folder.sub(lambda match, new=stand_in: _put(match, new), text)  # type: ignore[misc]
            text = _PACKAGES.sub("site-packages/", text)
            text = _STANDARD.sub(r"\1/", text)
            text = _USERS.sub(HOME, text)
            text = _BARE.sub(self._shortened, _QUOTED.sub(self._shortened, text))
            text = _IN_TEMPORARY.sub(f"{TEMPORARY}/", text)
        for name in self.names:
            text = name.sub(NAME, text)
        return text

    def _shortened(self, match: re.Match[str]) -> str:
        """The last part of a path outside of the known folders."""
        parts = re.split(_SEPARATOR, match["path"].rstrip("/\\"))
        is_file = parts[0] not in _SYSTEM and len(parts) > 1 and FILE.search(parts[-1])
        if not (match["begin"] or parts[0] in self.tops or is_file):
            return match[0]
        return ELSEWHERE if len(parts) == 1 and parts[0] in self.tops else f"{ELSEWHERE}/{parts[-1]}"


def _put(match: re.Match[str], stand_in: str) -> str:
    """What stands for a folder, with a separator where a path goes on behind it."""
    goes_on = match[0].endswith(("/", "\\")) and re.match(_PART, match.string[match.end() :])
    return stand_in if goes_on else stand_in.rstrip("/") or "."


def _folders() -> Iterator[tuple[str, str]]:
    package = Path(__file__).parents[1]
    stand_ins = {
        str(package): f"{package.name}/",
        sysconfig.get_path("stdlib"): f"python{sysconfig.get_python_version()}/",
        sysconfig.get_path("purelib"): "site-packages/",
        sysconfig.get_path("platlib"): "site-packages/",
        **dict.fromkeys(("/tmp", "/var/tmp", "/dev/shm", tempfile.gettempdir()), f"{TEMPORARY}/"),
    }
    with contextlib.suppress(RuntimeError):  # no home is known
        stand_ins[str(Path.home())] = f"{HOME}/"
    with contextlib.suppress(OSError):  # the working folder is gone
        stand_ins |= {str(cache.folder()): f"{CACHE}/", str(Path.cwd()): ""}
    for folder, stand_in in stand_ins.items():
        for path in {folder, str(Path(folder).resolve())}:
            if len(Path(path).parts) > 1:  # not the root
                yield path, stand_in


def _names() -> Iterator[re.Pattern[str]]:
    names = {socket.gethostname(), socket.gethostname().partition(".")[0]} - {"localhost"}
    with contextlib.suppress(OSError, KeyError, ImportError):  # no account is known
        names.add(getpass.getuser())
    for name in sorted(names, key=len, reverse=True):
        if len(name) >= _SHORTEST_NAME and name.lower() not in _ACCOUNTS:
            before, after = r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])"
            if len(name) <= _SHORT_NAME:
                before, after = r"(?<![\w./\\-])", r"(?![\w/\\-]|\.\w)"
            yield re.compile(before + re.escape(name) + after)
