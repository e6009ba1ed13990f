"""The times of the tokens of a generation, and the checks without which they would not be those of the request.

Engines report each token to one clock, `Timed`. What goes wrong in measurements of generation is refused by name:
padding that counts as tokens, a prompt that is decoded and encoded anew, an answer that ends early, tokens that are
handed out in groups, a cache of earlier prompts, and clocks of engines that cannot be right.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.api.decoder import Decoder
from bench.api.errors import GenerationError
from bench.api.generation import Generator, Told
from bench.api.plugin import Arrays
from bench.measure.clock import BurstPlan

if TYPE_CHECKING:
    import numpy as np

_AT_ONCE_NS = 1_000
"""Tokens that come sooner after one another were not computed one after the other: a call of Python takes as long."""
_LATE_NS = 1_000_000
"""By how much an engine's own clock may exceed ours, for the rounding of its figures."""
_LATE_SHARE = 0.05
"""Likewise, as a share of the request."""
_TRAILING_PADDING = 2
"""As many ids of padding at the end are no answer: a model may give a single one by chance."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timed:
    """One generation by our clock.

    Attributes:
        ids: ids of the tokens in their order.
        at_ns: for each token, nanoseconds from the request to the moment when its id was known.
        whole_ns: nanoseconds until the engine returned.
        report: what the engine reported.
    """

    ids: Sequence[int]
    at_ns: Sequence[int]
    whole_ns: int
    report: Told

    @property
    def first_ns(self) -> int:
        """Time to first token (TTFT)."""
        return self.at_ns[0]

    @property
    def gaps_ns(self) -> list[int]:
        """Time per output token (TPOT): for each token after the first, the time since the token before it."""
        return [after - before for before, after in zip(self.at_ns, self.at_ns[1:], strict=False)]


def timed(generator: Generator, prompt: np.ndarray, num_new: int) -> Timed:
    """Generate once, and note when each token comes."""
    clock = time.perf_counter_ns
    ids: list[int] = []
    at_ns: list[int] = []

    def emit(token: int) -> None:
        at_ns.append(clock())
        ids.append(token)

    start = clock()
    report = generator.generate(prompt, num_new, emit)
    whole_ns = clock() - start
    return Timed(ids=ids, at_ns=[at - start for at in at_ns], whole_ns=whole_ns, report=report)


def check(generation: Timed, decoder: Decoder, num_prompt: int, num_new: int) -> None:
    """Ensure that a generation is the one that was asked for.

    Args:
        generation: the generation.
        decoder: the decoder that generated.
        num_prompt: tokens of the prompt.
        num_new: tokens that were asked for.

    Raises:
        GenerationError: it is not; the message says what the engine did.
    """
    report = generation.report
    if report.num_cached:
        raise GenerationError(
            f"{report.num_cached} of {num_prompt} tokens of the prompt came from a cache of earlier requests: "
            "a prompt that is known already has no time to first token; caches of prompts must be off"
        )
    if report.num_prompt is not None and report.num_prompt != num_prompt:
        raise GenerationError(_other_prompt(report.num_prompt, num_prompt))
    _check_ids(generation, decoder, num_new)
    _check_clocks(generation)


def _other_prompt(ran: int, num_prompt: int) -> str:
    if ran > num_prompt:
        return (
            f"it ran {ran} tokens for a prompt of {num_prompt}: padding, or what a tokenizer adds, counts as tokens; "
            "the ids must be run as they are"
        )
    return (
        f"it ran {ran} tokens for a prompt of {num_prompt}: the ids were cut, or decoded to text and encoded anew; "
        "they must be run as they are"
    )


def _check_ids(generation: Timed, decoder: Decoder, num_new: int) -> None:
    report, ids, pad_id = generation.report, generation.ids, decoder.pad_id
    if len(ids) < num_new:
        raise GenerationError(
            f"it gave {len(ids)} of {num_new} tokens and ended: no time after the end of a sequence is that of a "
            "token; a forced length must go on after it"
        )
    if len(ids) > num_new:
        raise GenerationError(f"it gave {len(ids)} tokens; {num_new} were asked for")
    if report.num_new is not None and report.num_new != num_new:
        raise GenerationError(f"it tells of {report.num_new} new tokens, and handed out {num_new}")
    bad = next((token for token in ids if not 0 <= token < decoder.vocabulary), None)
    if bad is not None:
        raise GenerationError(f"it gave the id {bad}; there are {decoder.vocabulary} ids")
    if pad_id is not None:
        trailing = next((at for at, token in enumerate(reversed(ids)) if token != pad_id), num_new)
        if trailing >= _TRAILING_PADDING:
            raise GenerationError(
                f"tokens {num_new - trailing + 1} to {num_new} are padding (id {pad_id}): padding counts as tokens"
            )


def _check_clocks(generation: Timed) -> None:
    for number, gap_ns in enumerate(generation.gaps_ns, start=2):
        if gap_ns < _AT_ONCE_NS:
            raise GenerationError(
                f"token {number} came {gap_ns} ns after token {number - 1}: tokens are handed out in groups, "
                "so the time of one is not known"
            )
    own = [generation.report.first_ns, *(generation.report.gaps_ns or ())]
    most_ns = generation.whole_ns * (1 + _LATE_SHARE) + _LATE_NS
    total_ns = 0.0
    for number, each_ns in enumerate(own, start=1):
        if each_ns is None:
            continue
        total_ns += each_ns
        if not 0 <= each_ns <= most_ns or total_ns > most_ns:
            raise GenerationError(
                f"by its own clock token {number} took {each_ns / 1e6:,.6g} ms, "
                f"in a request of {generation.whole_ns / 1e6:,.6g} ms altogether"
            )


def burst(generator: Generator, feeds: Arrays, plan: BurstPlan) -> tuple[list[int], list[int]]:
    """Generate the same answer again and again, with the garbage collector off, and check each.

    Returns:
        Cold samples (first requests after waking) and steady samples in nanoseconds: of requests for one new token the
        time to first token, and of longer ones the time per output token. Their prefill wakes what a decode step needs,
        so these have no cold samples.
    """
    prompt, num_new = generator.prompt_of(feeds), generator.request.num_new

    def measure() -> list[int]:
        generation = timed(generator, prompt, num_new)
        check(generation, generator.request.decoder, len(prompt), num_new)
        return [generation.first_ns] if num_new == 1 else generation.gaps_ns

    clock = time.perf_counter_ns
    cold: list[int] = []
    steady: list[int] = []
    enabled = gc.isenabled()
    gc.disable()
    try:
        end_warm = clock() + plan.warm_ns
        while num_new == 1 and (len(cold) < plan.min_cold or (clock() < end_warm and len(cold) < plan.max_runs)):
            cold += measure()
        end_burst = clock() + plan.target_ns
        while len(steady) < plan.min_runs or (clock() < end_burst and len(steady) < plan.max_runs):
            steady += measure()
    finally:
        if enabled:
            gc.enable()
    return cold, steady
