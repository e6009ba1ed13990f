"""An engine that generates with the toy decoder, honestly or with the mistakes that measurements of generation make."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.api import Runtime, Session, Task
from bench.api.decoder import Request
from bench.api.generation import Emit, Generator, Stepper, Told

PAD = 0
VOCABULARY = 32
ABSURD_NS = 1_958_228_200e6
"""The second token of a report: 1,958,228,200 ms."""


def _work() -> None:
    """Takes as long as a small pass, so that tokens do not come at once."""
    np.cos(np.arange(4096))


class Honest(Stepper):
    """Keeps the ids of a text, and looks at the last of them."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._ids: list[int] = []

    @property
    def depth(self) -> int:
        return len(self._ids)

    def start(self, prompt: np.ndarray) -> Any:
        self._ids = prompt.tolist()
        return self._logits()

    def step(self, token: int) -> Any:
        self._ids.append(token)
        return self._logits()

    def _logits(self) -> np.ndarray:
        logits = np.cos(np.arange(VOCABULARY, dtype=np.float32))
        logits[2 + (5 * self._ids[-1] + len(self._ids)) % (VOCABULARY - 2)] = 8.0
        return logits


class PaddedAnswer(Honest):
    """Ends its answer after twelve tokens, and fills it up with padding, which counts as tokens."""

    def generate(self, prompt: np.ndarray, num_new: int, emit: Emit) -> Told:
        told = super().generate(prompt, min(12, num_new), emit)
        for _ in range(num_new - 12):
            _work()
            emit(PAD)
        return Told(num_prompt=told.num_prompt)


class PaddedPrompt(Honest):
    """Fills each prompt up to a fixed length with padding, as a static graph needs."""

    def start(self, prompt: np.ndarray) -> Any:
        padding = np.full(256 - len(prompt), PAD)
        return super().start(np.concatenate([padding, prompt]))


class EncodedAnew(Honest):
    """Decodes a prompt to text and encodes it anew: its tokenizer joins pairs of equal characters."""

    def start(self, prompt: np.ndarray) -> Any:
        text = "".join(chr(0x100 + token) for token in prompt)
        ids = [ord(character) - 0x100 for character in text]
        return super().start(np.array(ids[: len(ids) - len(ids) // 8]))


class EarlyEnd(Honest):
    """Ends after twelve tokens, whatever it was asked for."""

    def generate(self, prompt: np.ndarray, num_new: int, emit: Emit) -> Told:
        return super().generate(prompt, min(12, num_new), emit)


class AbsurdClock(Honest):
    """Tells a second token of weeks, as a clock that starts at zero does."""

    def generate(self, prompt: np.ndarray, num_new: int, emit: Emit) -> Told:
        told = super().generate(prompt, num_new, emit)
        gaps = [ABSURD_NS] * min(1, num_new - 1)
        return Told(num_prompt=told.num_prompt, first_ns=10.0, gaps_ns=gaps)


class Grouped(Honest):
    """Hands out tokens in groups of eight."""

    def generate(self, prompt: np.ndarray, num_new: int, emit: Emit) -> Told:
        ids: list[int] = []
        told = super().generate(prompt, num_new, ids.append)
        for first in range(0, num_new, 8):
            _work()
            for token in ids[first : first + 8]:
                emit(token)
        return told


class KeepsPrompts(Honest):
    """Takes tokens of the prompt from a cache of earlier requests, and says so."""

    def generate(self, prompt: np.ndarray, num_new: int, emit: Emit) -> Told:
        told = super().generate(prompt, num_new, emit)
        return Told(num_prompt=told.num_prompt, num_cached=len(prompt) - 1)


class KeepsSecretly(Honest):
    """Keeps prompts, and tells nothing: a new one takes a few milliseconds."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._known: set[bytes] = set()

    def start(self, prompt: np.ndarray) -> Any:
        if prompt.tobytes() not in self._known:
            self._known.add(prompt.tobytes())
            time.sleep(0.02)
        return super().start(prompt)


class WrongCache(Honest):
    """Loses a token of its cache where it chooses by itself, though not where tokens are forced."""

    def generate(self, prompt: np.ndarray, num_new: int, emit: Emit) -> Told:
        token = int(self.start(prompt).argmax())
        emit(token)
        for place in range(1, num_new):
            if place == 20:
                self._ids.pop(0)
            token = int(self.step(token).argmax())
            emit(token)
        return Told(num_prompt=len(prompt), num_cached=0)


ENGINES: Mapping[str, Callable[[Request], Generator]] = {
    "cpu": Honest,
    "padded_answer": PaddedAnswer,
    "padded_prompt": PaddedPrompt,
    "encoded_anew": EncodedAnew,
    "early_end": EarlyEnd,
    "absurd_clock": AbsurdClock,
    "grouped": Grouped,
    "keeps_prompts": KeepsPrompts,
    "keeps_secretly": KeepsSecretly,
    "wrong_cache": WrongCache,
}


class ToyEngine(Runtime):
    """Each provider but the first is a mistake."""

    formats = ("null",)
    default_for = ("null",)
    generates = True
    scores = False

    def providers(self) -> tuple[str, ...]:
        return tuple(ENGINES)

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        assert task.request is not None
        return ENGINES[provider](task.request)
