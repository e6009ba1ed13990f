r"""Text without characters that steer a terminal or hide: each of them is shown as an escape, such as `\x1b`.

Names, reasons and stored texts come from files of other people. A terminal obeys the control characters in them, a
bidirectional override shows a text in another order than it is in, and a line separator or a zero-width character makes
a text look like another text.
"""

from __future__ import annotations

import re

_OTHER = re.compile(r"[^ -~]")
"""Characters other than those that are printed in every encoding."""
_BLANK = re.compile(
    "[\N{COMBINING GRAPHEME JOINER}\N{HANGUL CHOSEONG FILLER}\N{HANGUL JUNGSEONG FILLER}\u17b4\u17b5\u180b-\u180f"
    "\N{HANGUL FILLER}\ufe00-\ufe0f\N{HALFWIDTH HANGUL FILLER}\N{BRAILLE PATTERN BLANK}\U000e0100-\U000e01ef]"
)
"""Characters that count as printable and leave no mark.

Source: Unicode Standard Annex 44, property Default_Ignorable_Code_Point.
"""
_JSON_LAYOUT = "\n"


def printable(text: str, keep: str = "") -> str:
    """A text in which every character that cannot be seen is escaped, as Python writes it, but for those in `keep`.

    These are control characters (C0, DEL, C1), format characters (bidirectional marks, overrides and isolates,
    zero-width characters), blanks other than a space, separators of lines and paragraphs, lone surrogates, characters
    that Unicode does not assign, and letters without a mark.
    """
    plain = text
    for char in keep:
        plain = plain.replace(char, "")
    if plain.isascii() and plain.isprintable():  # as most are, and that is quick to see
        return text
    return _OTHER.sub(lambda match: match[0] if match[0] in keep or _is_seen(match[0]) else _escape(match[0]), text)


def printable_json(text: str) -> str:
    """JSON that reads as the same values, in which each character that cannot be seen is an escape of JSON's.

    Args:
        text: JSON; outside of its strings it has spaces and line ends alone, which stay.
    """

    def escaped(match: re.Match[str]) -> str:
        char = match[0]
        if char in _JSON_LAYOUT or _is_seen(char):
            return char
        units = char.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

    return _OTHER.sub(escaped, text)


def _is_seen(char: str) -> bool:
    return char.isprintable() and _BLANK.match(char) is None


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode()
