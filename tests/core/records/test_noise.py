"""The sentences on how noisy the machine was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.measure.comparison import CELL
from bench.records import assemble, noise
from bench.records.measurements import Measurements
from bench.records.store import Record
from support import records as made


def fitted(share: float, launches: int, has_converged: bool) -> Any:
    return SimpleNamespace(
        has_converged=has_converged,
        believed_share=lambda name: None if name == made.BASELINE else share,
        num_launches={made.BASELINE: launches, made.HALVE: launches},
    )


def said(widening: float, blocks: str = "abcdef", share: float = 0.0, converged: bool = True, **lost: float) -> str:
    launches = [made.launch(block, CELL, 500, **lost) for block in blocks]
    record = made.record(made.HALVE, *launches)
    rows = [row for row in assemble.rows({made.BASELINE: made.baseline(), made.HALVE: record}) if row.num_launches]
    stands: Any = SimpleNamespace(
        widening={made.HALVE: widening},
        records={made.BASELINE: made.baseline(), made.HALVE: record},
        of=lambda _: fitted(share, len(blocks), converged),
    )
    return noise.said(stands, rows)


@pytest.mark.parametrize(
    ("widening", "words"),
    [
        (2.31, "The machine was noisy: intervals are 2.3 times as wide as on an idle machine."),
        (1.42, "The machine was noisy: intervals are 1.4 times as wide as on an idle machine."),
        (1.38, "Intervals are about as wide as on an idle machine."),
        (0.5, "Intervals are about as wide as on an idle machine."),
    ],
)
def test_what_the_noise_cost(widening: float, words: str) -> None:
    assert said(widening) == words


def test_of_few_launches_the_cost_is_that_of_not_knowing() -> None:
    assert said(1.5, "abcde") == (
        "So few launches do not tell how noisy the machine was: "
        "intervals are 1.5 times as wide as on one that is known to be idle."
    )


def test_what_others_took() -> None:
    told = said(2.0, run_delay_share=0.1, steal_share=0.02)
    assert told.endswith(" Other programs and other virtual machines took 12 % of the time of its launches.")
    assert "Other programs" not in said(2.0, run_delay_share=0.004)


def test_an_interval_that_rests_on_prior_is_told() -> None:
    assert said(1.0, share=0.51).endswith(
        "idle machine. The interval rests mostly on what such machines have shown before, because launches are few."
    )
    assert said(1.0, "a", share=0.9).endswith("because the cell was launched once.")
    assert "such machines" not in said(1.0, share=0.5)


def test_an_estimate_that_did_not_converge_is_told() -> None:
    sentence = "The estimate of the noise did not converge: intervals may be too narrow or too wide."
    assert said(2.0, converged=False).endswith(f" {sentence}")
    assert sentence not in said(2.0)


def sweep(num_cells: int, num_blocks: int) -> dict[str, Record]:
    """A baseline and other cells, each with a launch in each of some blocks, hours apart."""
    blocks = [str(block) for block in range(num_blocks)]
    random = np.random.default_rng(1)
    records = {made.BASELINE: made.baseline(**dict.fromkeys(blocks, 1000))}
    for number in range(num_cells):
        path = f"toy/null/native/v{number}/null/cpu/b2t1"
        speeds = (500 * np.exp(0.02 * random.normal(size=num_blocks))).astype(int)
        own = [made.launch(block, CELL, int(speed)) for block, speed in zip(blocks, speeds, strict=True)]
        records[path] = made.record(path, *own)
    return records


def test_a_sweep_with_one_launch_says_how_many_intervals_rest_on_prior() -> None:
    records = sweep(5, 1)
    told = noise.said(Measurements(records), assemble.rows(records))
    assert told.endswith(
        " 5 of 5 intervals rest mostly on what such machines have shown before, because the cells were launched once."
    )


def test_a_sweep_with_many_launches_rests_on_these() -> None:
    records = sweep(5, 16)
    assert "such machines" not in noise.said(Measurements(records), assemble.rows(records))


def test_without_a_comparison_nothing_is_said() -> None:
    records = {made.BASELINE: made.baseline()}
    assert noise.said(Measurements(records), assemble.rows(records)) == ""


def test_real_measurements_have_a_widening_for_each_cell_but_the_baseline() -> None:
    records = {made.BASELINE: made.baseline(), made.HALVE: made.record(made.HALVE, made.launch("a", CELL, 500))}
    assert Measurements(records).widening.keys() == {made.HALVE}
