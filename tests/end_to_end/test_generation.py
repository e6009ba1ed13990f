"""Engines that generate: an honest one gives rows, and what measurements of generation get wrong is a row's reason.

The engines are in `tests/faults/runtimes/toy_engine.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.features import is_there

if TYPE_CHECKING:
    from conftest import Harness

FAULTS = Path(__file__).parents[1] / "faults"
PREFILL, DECODE = "toy_decoder~generate@new=1,prompt=96", "toy_decoder~generate@new=16,prompt=96"
ENGINE = "null/native/raw/toy_engine"
FAILED = {
    "padded_answer": "tokens 13 to 256 are padding (id 0): padding counts as tokens",
    "padded_prompt": "it ran 256 tokens for a prompt of 96: padding, or what a tokenizer adds, counts as tokens",
    "encoded_anew": "it ran 84 tokens for a prompt of 96: the ids were cut, or decoded to text and encoded anew",
    "early_end": "it gave 12 of 256 tokens and ended: no time after the end of a sequence is that of a token",
    "absurd_clock": "by its own clock token 2 took 1.95823e+09 ms, in a request of",
    "grouped": "tokens are handed out in groups, so the time of one is not known",
    "keeps_prompts": "95 of 96 tokens of the prompt came from a cache of earlier requests",
    "keeps_secretly": "prompts that were asked before took",
    "wrong_cache": "token 21 of 256 of its answer is",
}


@pytest.fixture
def generating(harness: Harness) -> Harness:
    harness.quick = False
    harness.environment |= {"BENCH_PATH": str(FAULTS)}
    return harness


@pytest.mark.slow(seconds=20)
def test_mistakes_of_engines_are_reasons(generating: Harness) -> None:
    cells = {name: f"{DECODE}/{ENGINE}/{name}/b1t1" for name in ("cpu", *FAILED)}
    generating.here("run", *cells.values(), f"{PREFILL}/{ENGINE}/cpu/b1t1", "--launches", "1")
    rows = generating.shown()
    honest = rows[cells["cpu"]]
    assert (honest["status"], honest["fidelity"]) == ("ok", "exact")
    assert honest["latency_p50_ns"] > 0
    assert honest["ttft_ns"] == rows[f"{PREFILL}/{ENGINE}/cpu/b1t1"]["latency_p50_ns"]
    for name, reason in FAILED.items():
        row = rows[cells[name]]
        assert (row["status"], row["latency_p50_ns"]) == ("failed", None), name
        assert reason in row["reason"], (name, row["reason"])
    if is_there("generation"):
        table = generating.here("show", "--sweep", "generation")
        assert "null/native/raw/toy_engine/cpu" in table.replace("\n", "")
    picked = generating.here("pick", DECODE, "--max-ttft", "1m", "--min-tokens-per-s", "1")
    assert f"keep: {cells['cpu']}" in picked, "of one launch there is no winner"
    assert "--min-tokens-per-s 0 of 1" in generating.here("pick", DECODE, "--min-tokens-per-s", "1e9", code=1)
    generating.here("pick", PREFILL, "--min-tokens-per-s", "1", code=2)
    assert "times first tokens alone" in generating.stderr()
