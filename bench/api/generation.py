"""A session that generates text: token by token, each reported to a clock at the moment when its id is known."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from bench.api.decoder import IDS, Request
from bench.api.plugin import Arrays, Outputs
from bench.api.runtime import Session

if TYPE_CHECKING:
    import numpy as np

Emit: TypeAlias = "Callable[[int], object]"
"""Takes the id of a token as soon as the engine knows it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Told:
    """What an engine itself tells of a generation, for the harness to check; None where it tells nothing.

    Attributes:
        num_prompt: tokens of the prompt that it ran.
        num_cached: tokens of the prompt that it took from a cache of earlier requests instead.
        num_new: tokens that it generated.
        first_ns: by its own clock, nanoseconds from the request to the first token.
        gaps_ns: by its own clock, nanoseconds from each token to the next.
    """

    num_prompt: int | None = None
    num_cached: int | None = None
    num_new: int | None = None
    first_ns: float | None = None
    gaps_ns: Sequence[float] | None = None


class Generator(Session):
    """An opened decoder that answers prompts; its caches of earlier requests are off.

    Args:
        request: what it is opened for.
    """

    scores: bool = True
    """Whether `logits_after` can tell the logits of what follows a text."""
    cache_bytes: int = 4
    """Bytes of an element of the cache of keys and values."""
    weight_bytes: int | None = None
    """Bytes of its weights as it keeps them, but for tables that it looks rows up in; None where it cannot tell."""
    reserved_tokens: int | None = None
    """Tokens for which the cache has room from the start; None where it grows with the text."""

    def __init__(self, request: Request) -> None:
        self.request = request

    @abc.abstractmethod
    def generate(self, prompt: np.ndarray, num_new: int, emit: Emit) -> Told:
        """Answer one prompt greedily, with nothing kept of earlier requests.

        This method is timed: from its call to the first `emit`, and from each `emit` to the next.

        Args:
            prompt: token ids, int64 (P,), all of them to be run as they are.
            num_new: tokens to generate: no more, and no fewer where the text would end.
            emit: takes the id of each token.
        """

    def logits_after(self, prompt: np.ndarray, forced: np.ndarray) -> np.ndarray:
        """Logits, float32 (F, V), of what follows the prompt, and of what follows each forced token but the last.

        Not timed; each forced token is run by itself on the cache, as in a generation.

        Args:
            prompt: token ids, int64 (P,).
            forced: token ids, int64 (F,), that are taken instead of those that the engine would choose.
        """
        raise NotImplementedError

    def prompt_of(self, feeds: Arrays) -> np.ndarray:
        """The ids of the prompt, int64 (P,), of a request's arrays."""
        return feeds[IDS].reshape(-1)[: self.request.num_prompt]

    def run(self, feeds: Arrays) -> Outputs:
        """One whole request of forced length: the ids that were generated, int64 (N,)."""
        import numpy as np

        ids: list[int] = []
        self.generate(self.prompt_of(feeds), self.request.num_new, ids.append)
        return [np.array(ids, np.int64)]


class Stepper(Generator):
    """A generator around an engine that runs one pass at a time: the loop, and the choice of a token, are ours."""

    @abc.abstractmethod
    def start(self, prompt: np.ndarray) -> Any:
        """Forget the text before, run a prompt, and return the logits (V,) of what follows it as a host array."""

    @abc.abstractmethod
    def step(self, token: int) -> Any:
        """Run one token after the text so far, and return the logits (V,) of what follows it as a host array."""

    @property
    @abc.abstractmethod
    def depth(self) -> int:
        """Tokens in the cache, as the engine itself knows it."""

    def generate(self, prompt: np.ndarray, num_new: int, emit: Emit) -> Told:
        token = int(self.start(prompt).argmax())
        emit(token)
        for _ in range(num_new - 1):
            token = int(self.step(token).argmax())
            emit(token)
        num_run = self.depth - (num_new - 1)
        return Told(num_prompt=num_run, num_cached=0)

    def logits_after(self, prompt: np.ndarray, forced: np.ndarray) -> np.ndarray:
        import numpy as np

        rows = [np.array(self.start(prompt), np.float32).reshape(-1)]
        rows += [np.array(self.step(int(token)), np.float32).reshape(-1) for token in forced[:-1]]
        return np.stack(rows)
