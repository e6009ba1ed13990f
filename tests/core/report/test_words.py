"""Requests, as headings name them."""

from __future__ import annotations

import pytest

from bench.report.words import request_in_words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("crnn@height=64", "crnn@height=64"),
        ("lm~generate@new=64,prompt=256", "lm, a token after 256"),
        ("lm~generate@new=1,prompt=768", "lm, the first token after 768"),
    ],
)
def test_a_heading_says_what_is_generated(name: str, words: str) -> None:
    assert request_in_words(name) == words
