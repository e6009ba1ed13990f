"""Bounds of prefill and decode, and the rate at which a buffer is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.measure import bandwidth
from bench.measure.generation import Pass, bound
from bench.measure.roofline import Peaks

PEAKS = Peaks(macs_per_s={"float32": 1e9, "bfloat16": 2e9, "int8": 8e9}, libraries={}, bytes_per_s=1e10)


def cost(**given: int) -> Pass:
    fields = {"num_tokens": 1, "depth": 0, "matrix_macs": 0, "attention_macs": 0, "weights_read": 0, "cache_read": 0}
    return Pass(**{**fields, "cache_kept": 0, **given})


@pytest.mark.parametrize(
    ("stored", "weight_bytes", "cache_bytes"),
    [("float32", 4, 4), ("bfloat16", 2, 2), ("float16", 2, 2), ("int8", 1.0625, 2), ("int4", 0.5625, 2)],
)
def test_bytes_of_weights_and_cache(stored: str, weight_bytes: float, cache_bytes: float) -> None:
    assert cost(weights_read=1000).num_bytes(stored) == 1000 * weight_bytes
    assert cost(cache_read=1000).num_bytes(stored) == 1000 * cache_bytes


@pytest.mark.parametrize(("stored", "peak"), [("float32", 1e9), ("bfloat16", 2e9), ("float16", 1e9), ("int4", 8e9)])
def test_arithmetic_is_bound_by_the_fastest_precision_that_fits(stored: str, peak: float) -> None:
    found = bound(cost(matrix_macs=30_000, attention_macs=10_000), stored, PEAKS, 1e9)
    assert (found.compute_s, found.memory_s, found.by) == (40_000 / peak, 0, "compute")


def test_a_pass_takes_as_long_as_the_slower_of_the_two() -> None:
    found = bound(cost(matrix_macs=1000, weights_read=1000, cache_read=500), "float32", PEAKS, 1e9)
    assert (found.seconds, found.by) == (6e-6, "memory")
    found = bound(cost(matrix_macs=10_000, weights_read=1000), "float32", PEAKS, 1e9)
    assert (found.seconds, found.by) == (1e-5, "compute")


def test_reading_is_measured() -> None:
    assert 1e8 < bandwidth.rate(num_bytes=2**20, readers=2)["bytes_per_s"] < 1e13
    assert 1e8 < bandwidth.ask(2**22, 1) < 1e13


@pytest.mark.parametrize(("wanted", "made"), [(2**40, 2**30), (1000, 1000)])
def test_a_huge_buffer_is_not_made(wanted: int, made: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(bandwidth, "ask_once", lambda _, **given: asked.append(given) or {"bytes_per_s": 5.0})
    assert bandwidth.ask(wanted, 3) == 5
    assert (asked[0]["num_bytes"], asked[0]["readers"]) == (made, 3)


def test_a_buffer_of_a_few_bytes_is_read_in_parts_that_take_longer_than_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: set[int] = set()
    dot = np.dot

    def counted(left: Any, right: Any) -> Any:
        sizes.add(left.nbytes)
        return dot(left, right)

    monkeypatch.setattr(bandwidth, "SPAN_NS", 0)
    monkeypatch.setattr(bandwidth.np, "dot", counted)
    assert bandwidth.rate(num_bytes=1, readers=3)["bytes_per_s"] > 0
    assert sizes == {2**16}
