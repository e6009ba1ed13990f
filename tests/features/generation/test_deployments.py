"""Deployments of decoders: their stages joined, and the table of them."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from bench.api.names import TaskName
from bench.features.generation import render
from bench.features.generation.deployments import deployments
from support.decoder_records import DECODE, FAST, PREFILL, SLOW, records, results


def test_a_deployment_tells_what_its_decode_steps_reserve() -> None:
    found = records()
    for path, one in found.items():
        reserved = 257 if path.startswith(PREFILL) else 320
        kept = msgspec.structs.replace(one.quality.generation, reserved_tokens=reserved)  # type: ignore[union-attr]
        quality = msgspec.structs.replace(one.quality, generation=kept)  # type: ignore[type-var]
        found[path] = dataclasses.replace(one, quality=quality)
    stored = results(found)
    assert {one.cache.reserved_tokens for one in deployments(stored, stored.rows)} == {320}


def test_a_row_that_tells_nothing_of_its_cache_is_left_out() -> None:
    stored = results(records())
    untold = {}
    for path, one in stored.records.items():
        told = one.quality.generation if path.endswith(SLOW) else None  # type: ignore[union-attr]
        quality = msgspec.structs.replace(one.quality, generation=told)  # type: ignore[type-var]
        untold[path] = dataclasses.replace(one, quality=quality)
    found = deployments(dataclasses.replace(stored, records=untold), stored.rows)
    assert [one.name for one in found] == ["torch/native/raw/slow/cpu"]


def test_columns_that_a_terminal_has_no_room_for_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = results(records())
    texts = {}
    for width in (100, 160):
        monkeypatch.setenv("COLUMNS", str(width))
        texts[width] = render.render(deployments(stored, stored.rows), format="table").replace("\n", " ")
    assert "reserved" not in texts[100]
    assert "some columns are left out; COLUMNS=150 shows all" in texts[100]
    assert "reserved" in texts[160]
    assert "left out" not in texts[160]


def test_stages_of_a_deployment_are_joined() -> None:
    stored = results(records())
    fast, slow = deployments(stored, stored.rows)
    assert (fast.family, fast.name, slow.name) == ("lm", FAST.removesuffix("/b1t1"), SLOW.removesuffix("/b1t1"))
    assert list(fast.rows) == [TaskName.parse(PREFILL), TaskName.parse(DECODE)]
    assert (fast.metric, fast.metric_name, fast.agreement) == (0.75, "accuracy", 0.5)
    assert fast.cache.cache_bytes_per_token == 64
    assert fast.over == {}  # the decoder's task is not here


def test_the_table_has_a_line_for_each_deployment() -> None:
    stored = results(records(reserved_tokens=96))
    table = render.render(deployments(stored, stored.rows), format="md")
    lines = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")]
    titles, _, fast, slow = lines
    assert titles[1:6] == ["TTFT 8 (ms)", "TPOT 8 (ms)", "tokens/s at 8", "bound (%)", "accuracy"]
    assert fast[0] == "| torch/native/raw/fast/cpu"
    assert float(fast[1]) == pytest.approx(20, rel=0.01)
    assert float(fast[3]) == pytest.approx(250, rel=0.01)
    assert fast[5:9] == ["0.7500", "50", "64", "96"]
    assert slow[8] == "grows"
