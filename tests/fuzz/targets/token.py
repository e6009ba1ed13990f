"""The file of a fleet's token: it is refused in a sentence, or Ray is told of it."""

from __future__ import annotations

from collections.abc import Iterator

from fuzz import mutations, workplace

INSTRUMENTED = ("bench.features.fleet",)
smaller = mutations.smaller_bytes


def seeds() -> Iterator[bytes]:
    yield b"0123456789abcdef" * 4
    yield b"0123456789abcdef" * 4 + b"\n"


def check(content: bytes) -> None:
    from bench.features.fleet import cluster  # here, so that the fuzzer sees its branches

    with workplace.folder() as path:
        token = path / "token"
        token.touch(0o600)
        token.write_bytes(content)
        for value in cluster.environment(token).values():
            assert "\0" not in value, "a variable of the environment holds no such character"


def changed(content: bytes, chance: object, most_bytes: int) -> bytes:
    return b"" if not content else content[:-1] + bytes([content[-1] ^ 0x80])
