"""Characters that steer a terminal or hide are shown as escapes, and JSON with such characters reads as before."""

from __future__ import annotations

import json
import sys

import pytest

from bench.api.printable import printable, printable_json

HIDDEN = {
    "C0": "\x00\x07\x08\t\n\r\x1b\x1f",
    "DEL and C1": "\x7f\x80\x85\x9b\x9f",
    "bidirectional": "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
    "zero width": "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u180e",
    "line ends": "\x0b\x0c\x1c\x1d\x1e\u2028\u2029",
    "blanks": "\u00a0\u2003\u3000\u3164\u2800\uffa0",
    "variations": "\ufe0f\U000e0100\U000e0041",
    "no character": "\ud800\udcff\ufffe\U0010ffff\ue000",
}


@pytest.mark.parametrize("kind", HIDDEN)
def test_what_cannot_be_seen_is_an_escape(kind: str) -> None:
    for char in HIDDEN[kind]:
        shown = printable(f"a{char}b")
        assert shown == f"a{char.encode('unicode_escape').decode()}b"
        assert shown.isascii()
        assert shown.isprintable()
        assert printable(shown) == shown


def test_what_can_be_seen_stays() -> None:
    text = "conv_1/w:0 µs 5 é 中文 \u05e9 🚀 ~ \\x1b"
    assert printable(text) == text


def test_layout_is_kept_where_it_is_asked_for() -> None:
    assert printable("a\tb\nc\rd\x1b", keep="\n\t") == "a\tb\nc\\rd\\x1b"


def test_no_character_of_unicode_passes_that_is_not_printable() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert printable(every).isprintable()


def test_json_reads_as_the_same_values() -> None:
    content = {"\x9bname": ["-".join("".join(HIDDEN.values())), "µ中🚀", "\\u202e", '"\\'], "number": -0.5}
    text = json.dumps(content, ensure_ascii=False, indent=1)
    shown = printable_json(text)
    assert json.loads(shown) == content
    assert shown.replace("\n", "").isprintable()
    assert "µ中🚀" in shown
