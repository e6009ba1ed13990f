"""A part without the model's own numbers: weights and inputs become random, of the same shape and density."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from pathlib import Path

from bench.features.blame import intervals, worker_requests
from bench.features.blame.cuts import Part
from bench.features.blame.parts import Cut, Stopwatch
from bench.features.blame.sides import Pair
from bench.measure.limits import Limits
from bench.measure.process import ask_once
from bench.measure.stats import Estimate
from bench.pipeline import opening

_NUM_BLOCKS = 5
_LEAST_LEFT = 0.5
"""Share of the effect, on the log scale, that random numbers must leave."""


def without_numbers(cuts: tuple[Cut, Cut], folder: Path, limits: Limits) -> tuple[tuple[Cut, Cut], int]:
    """Both files of a part with random weights and inputs, those of one name the same on both sides.

    Returns:
        The files, and how many weights and inputs of either are the model's own still: see `randomize`.

    Raises:
        ChildError: a file cannot be read.
    """
    changed, num_kept = [], 0
    for letter, cut in zip("ab", cuts, strict=True):
        model, feeds = folder / f"public_{letter}.onnx", folder / f"public_{letter}.npz"
        files = {"model": str(cut.model), "feeds": str(cut.feeds), "target": str(model), "target_feeds": str(feeds)}
        limited = {"timeout_s": limits.prepare_s, "memory_bytes": limits.memory_bytes}
        answer = ask_once(worker_requests.randomize, **limited, **opening.process(), **files)  # type: ignore[arg-type]
        num_kept = max(num_kept, int(answer["num_kept"]))
        changed.append(dataclasses.replace(cut, model=model, feeds=feeds))
    return ((changed[0], changed[0]) if cuts[0] == cuts[1] else (changed[0], changed[1])), num_kept


def ratio(pair: Pair, part: Part, cuts: tuple[Cut, Cut], feeds: Path, limits: Limits) -> Estimate | None:
    """Latency of a part under B over that under A; None where it cannot be run."""

    def only(parts: Sequence[Part]) -> dict[str, tuple[Cut, Cut] | str]:
        return {each.key: cuts for each in parts}

    blocks = Stopwatch(pair, feeds, limits, only).measure([part], num_blocks=_NUM_BLOCKS, ends_s=time.monotonic() + 60)
    times = [times[part.key] for times in blocks if part.key in times]
    return intervals.ratio(times) if times else None


def stays(own: Estimate, public: Estimate) -> bool:
    """Whether random numbers clearly leave an effect, and most of it."""
    is_clear = public.low > 1 if own.value > 1 else public.high < 1
    return is_clear and own.value != 1 and math.log(public.value) / math.log(own.value) >= _LEAST_LEFT
