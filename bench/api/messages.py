"""Messages of C++ libraries without the places in the libraries' own sources, which tell a user nothing.

`Exception from src/inference/src/cpp/core.cpp:84: Check 'false' failed at src/core/src/node.cpp:212: While validating
node 'Conv-16': ...` begins at `While validating`. So the operator that is to blame stays where a message is cut short.
"""

from __future__ import annotations

import errno
import re

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_SPACE = ("No space left on device", "Disk quota exceeded")
"""How packages that are not Python's say so."""
FULL_DISK = (
    "the disk of the cache or of temporary files is full; free some space and run again, or name folders on another "
    "disk by BENCH_CACHE and TMPDIR"
)
MOST_CHARACTERS = 4000
"""A longer message is cut before it is searched."""
LONGEST = 300
"""Most characters of an error's text that a child process passes to its parent."""
CUT = " ... "
"""Stands for the middle of a text that is cut short."""
_PLACE = (
    r"(?<![\w.+\\/'\"`-])(?!//)(?:[A-Za-z]:)?"
    r"[\w.+\\/-]{0,300}[\\/][\w.+-]{1,100}\.(?:cc|cpp|cxx|cu|h|hh|hpp|inl):[1-9]\d*"
)
"""A file of C++ with its folder and its line. The lengths are bounded, for a search tries them at each character.

It begins a word, so that the last letter of one before a colon is no drive (`failed:/src/model.cc:181`). After a quote
stands a name of the model's (`'block/state.h:0'`), whose last number may be 0 besides; what begins with two slashes is
the rest of a URL.
"""
_THROWN = re.compile(rf"Exception from {_PLACE}:\s*")
_CHECK = re.compile(rf"(?P<check>Check '(?:(?!Check ').)*?' failed) at {_PLACE}:?\s*(?P<rest>.*)", re.DOTALL)
_ENFORCED = re.compile(rf"{_PLACE} (?=[^()]*::[^()]*\()")
"""A place of ONNX Runtime's, before the signature of the function there."""
ELSEWHERE = re.compile(rf"(?:\bat )?{_PLACE}:?\s?")
_NEAR = re.compile(r"(?<![\w.\\/'\"`-])[\w-]+\.cc:[1-9]\d* \w+ (?=[A-Z])")
"""A file of ONNX Runtime's without its folder, a line and a function."""
BETWEEN = re.compile(r">*::(?:[\w~]+|<[^>]*>)| const\b| (?=\[with )")
"""Parts of a signature between brackets and after them."""
_OPENED, _CLOSED = ("(", "["), (")", "]")


def is_full_disk(error: BaseException | None) -> bool:
    """Whether an error, or what it was raised from, says that a disk is full."""
    while error is not None:
        if (isinstance(error, OSError) and error.errno in _FULL) or any(said in str(error) for said in _NO_SPACE):
            return True
        error = error.__cause__
    return False


def shortened(text: str, longest: int) -> str:
    """A text of at most `longest` characters, without its middle where it has more.

    An error that quotes another, or a whole configuration, begins with what failed and ends with what went wrong.
    """
    if len(text) <= longest:
        return text
    end = (longest - len(CUT)) // 2
    return f"{text[: longest - len(CUT) - end]}{CUT}{text[-end:]}"


def without_places(text: str) -> str:
    """A message without the files, lines, function signatures and conditions of a C++ library's own sources.

    A condition stays where nothing follows it. Sources of other languages stay, for they may be the user's.

    Args:
        text: the message, on any number of lines; only its first `MOST_CHARACTERS` characters are returned.
    """
    text = text[:MOST_CHARACTERS]
    text = _THROWN.sub("", text)
    while (match := _CHECK.search(text)) is not None:
        text = text[: match.start()] + (match["rest"] if match["rest"].strip() else match["check"])
    while (match := _ENFORCED.search(text)) is not None:
        text = _joined(text[: match.start()], _after_signature(text[match.end() :]))
    return ELSEWHERE.sub("", _NEAR.sub("", text))


def _joined(before: str, after: str) -> str:
    """Two parts of a message, apart where a colon ends the first."""
    return f"{before} {after}" if before.endswith(":") and after else before + after


def _after_signature(text: str) -> str:
    """What follows a function's signature, as C++ writes it: `int f(const T&) const [with T = int] what follows`.

    Nothing follows a signature that was cut short.
    """
    rest = text[text.index("(") :]
    while end := _end_of_brackets(rest) if rest[:1] in _OPENED else _end_between(rest):
        rest = rest[end:]
    return rest.lstrip()


def _end_between(text: str) -> int:
    """The position behind a part of a signature that stands between brackets or after them; 0 where there is none."""
    match = BETWEEN.match(text)
    return match.end() if match else 0


def _end_of_brackets(text: str) -> int:
    """The position behind the bracket that closes the first one of a text; the text's length where none does."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character in _OPENED) - (character in _CLOSED)
        if not depth:
            return position + 1
    return len(text)
