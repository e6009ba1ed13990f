"""The price of a decoder's prefill and decode on this machine: its configuration is read in a child process."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.api import files
from bench.api.errors import ChildError, InputError
from bench.measure import bandwidth, peaks
from bench.measure.generation import WEIGHT_BITS, Bound, Pass, bound
from bench.measure.limits import Limits
from bench.measure.process import ask_once
from bench.measure.roofline import Peaks

CONFIG = "config.json"
_GENERATES = ("ForCausalLM", "LMHeadModel")
"""Ends of the names of transformers' classes that generate text with a decoder alone."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Costs:
    """What a decoder costs.

    Attributes:
        architecture: name of its class.
        num_params: parameters, tied ones counted once.
        cache_per_token: elements of keys and values that a token of one sequence adds to the cache.
        stored: how its weights are stored, a key of `WEIGHT_BITS`.
        batch: sequences at once.
        num_new: tokens that a generation gives; the prefill gives the first of them.
        passes: the prefill, the first and the last decode step.
        notes: lines to tell the user.
    """

    architecture: str
    num_params: int
    cache_per_token: int
    stored: str
    batch: int
    num_new: int
    passes: tuple[Pass, ...]
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rates:
    """What this machine does at most.

    Attributes:
        threads: threads that do it.
        peaks: of products and copies.
        bytes_per_s: at which it reads a buffer as large as weights and cache.
    """

    threads: int
    peaks: Peaks
    bytes_per_s: float


def is_decoder(path: Path) -> bool:
    """Whether a path is a folder of transformers whose configuration names a class that generates text."""
    if not path.is_dir():
        return False
    try:
        names = json.loads(files.read_text(path / CONFIG)).get("architectures")
    except (OSError, ValueError, AttributeError, RecursionError):
        return False
    return isinstance(names, list) and any(str(name).endswith(_GENERATES) for name in names)


def costs(path: Path, *, prompt: int, new: int, batch: int, stored: str | None, trust: bool) -> Costs:
    """What the decoder of a folder costs.

    Args:
        path: the folder; nothing but its `config.json` is needed.
        prompt: tokens of the prompt.
        new: tokens that are generated.
        batch: sequences at once.
        stored: how weights are stored; None for what the configuration says.
        trust: whether code in the folder may run.

    Raises:
        InputError: it cannot be priced; the message says why.
    """
    if not path.is_dir():
        raise InputError(f"{path} is not a folder with a {CONFIG}: only such a decoder is priced by --by generation")
    depths = sorted({prompt, prompt + new - 2}) if new > 1 else []
    limits = Limits.of(step_s=None, memory_bytes=None)
    try:
        answer: dict[str, Any] = ask_once(
            _costs,
            timeout_s=limits.prepare_s,
            memory_bytes=limits.memory_bytes,
            path=str(path.absolute()),
            prompt=prompt,
            depths=depths,
            batch=batch,
            trust=trust,
        )
    except ChildError as error:
        raise InputError(f"cannot price {path.name}: {error.reason}") from error
    storage = stored or answer["stored"]
    if storage not in WEIGHT_BITS:
        raise InputError(f"its weights are {storage}; say how they are stored by --stored: {', '.join(WEIGHT_BITS)}")
    passes = tuple(Pass(**each) for each in answer["passes"])
    fields = {key: answer[key] for key in ("architecture", "num_params", "cache_per_token")}
    return Costs(**fields, stored=storage, batch=batch, num_new=new, passes=passes, notes=tuple(answer["notes"]))


def rates(decoder: Costs, threads: int) -> Rates:
    """Measure what this machine does at most, in a few seconds.

    Raises:
        ChildError: a child process failed.
    """
    size = max(int(each.num_bytes(decoder.stored)) for each in decoder.passes)
    return Rates(threads=threads, peaks=peaks.ask(threads), bytes_per_s=bandwidth.ask(size, threads))


def bounds(decoder: Costs, at_most: Rates) -> Sequence[Bound]:
    """The least time of each pass on this machine."""
    return [bound(each, decoder.stored, at_most.peaks, at_most.bytes_per_s) for each in decoder.passes]


def _costs(**arguments: Any) -> dict[str, Any]:
    """The request to a child process, which alone imports PyTorch."""
    from bench.features.profile.decoder_costs import costs as priced

    return priced(**arguments)
