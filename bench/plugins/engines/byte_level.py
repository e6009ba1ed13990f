"""The characters by which byte-level tokenizers write bytes.

Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, as in GPT-2's `encoder.py`.
"""

from __future__ import annotations

import functools


@functools.cache
def bytes_by_character() -> dict[str, int]:
    """The byte that each character stands for, in the order of the bytes.

    Printable characters stand for themselves, and the other bytes for those from U+0100 on.
    """
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    codes, further = {}, 0x100
    for byte in range(0x100):
        character = byte
        if byte not in plain:
            character, further = further, further + 1
        codes[chr(character)] = byte
    return codes
