"""The bytes that a timed pass of a generating cell reads at least, and how fast this machine reads as many."""

from __future__ import annotations

from msgspec.structs import replace

from bench.api.artifact import Artifact
from bench.api.decoder import Request
from bench.measure import bandwidth
from bench.measure.generation import least_weight_bytes
from bench.records.lines import Generation, Quality

_BUILT = ("torch", "keras")
"""Formats of weights that a framework's own runtime builds a model of, whose weights it stores in another precision."""


def bounded(judged: Quality, artifact: Artifact, request: Request, threads: int, stored: int | None) -> Quality:
    """The quality with what the pass that is timed reads at least, and how fast this machine reads as much.

    Args:
        judged: the quality.
        artifact: the artifact.
        request: the request.
        threads: threads that run it.
        stored: see `least_weight_bytes`; None where only the session may tell.

    Raises:
        ChildError: the child process that reads failed.
    """
    generation = judged.generation
    assert isinstance(generation, Generation), "an engine that generates tells facts about its cache"
    whole = None if artifact.format in _BUILT else artifact.size_bytes
    stored = generation.weight_bytes if generation.weight_bytes is not None else stored
    num_bytes = least_weight_bytes(request.decoder.weights_read, judged.precision, whole, stored)
    num_bytes += request.depth * generation.cache_bytes_per_token
    rate = bandwidth.ask(num_bytes, threads)
    return replace(judged, generation=replace(generation, pass_bytes=num_bytes, read_bytes_per_s=rate))
