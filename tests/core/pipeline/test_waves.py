"""A sweep in waves: what is prepared, verified and timed in which order, and which cells are verified further."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats

from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.loss_units import AllowedLoss
from bench.measure import blocks, rounds
from bench.measure.goal import Goal
from bench.measure.ledgers import Group, Ledger
from bench.pipeline import contenders
from bench.pipeline import sweep as module
from bench.pipeline import waves as pipeline_waves
from bench.pipeline.flow import Prepared, Verified
from bench.pipeline.sweep import Sweep
from bench.pipeline.sweep_options import Options
from bench.records import metric_loss
from bench.records.metric_loss import Lost
from bench.records.store import Store
from support import records as made
from support.fake_place import NUM, Told, sweeps_of

LETTERS = "abcdefghijklmnopqrst"


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs a sweep of variants in waves, and gives its steps."""
    return sweeps_of(monkeypatch, tmp_path)


SPEEDS = {"fast": 400, "near": 410, "slow": 3000}


def test_each_wave_is_through_all_stages_before_the_next_begins(swept: Any) -> None:
    steps = swept([["raw", "slow"], ["fast", "near"]], speeds=SPEEDS)
    assert steps[:6] == [
        ("prepare", "raw", "slow"),
        ("verify first", "raw", "slow"),
        ("time", "slow"),
        ("prepare", "fast", "near"),
        ("verify first", "fast", "near"),
        ("time", "fast", "near"),
    ]
    assert swept.told.standings == [(2, 4), (4, 4)]


@pytest.mark.parametrize(("ends_in_s", "is_left_out"), [(200, True), (300, False), (None, False)])
def test_what_compiles_for_long_is_left_out_where_no_time_is_left(
    swept: Any, monkeypatch: pytest.MonkeyPatch, ends_in_s: float | None, is_left_out: bool
) -> None:
    """Of 600 s measuring gets 200 at least, and the compilation takes 40."""
    monkeypatch.setattr(
        pipeline_waves, "compiling_s", lambda cells: 40.0 * sum(each.variant == "slow" for each in cells)
    )
    ends_s = None if ends_in_s is None else time.monotonic() + ends_in_s
    steps = swept([["raw", "fast"], ["slow"]], speeds=SPEEDS, ends_s=ends_s, budget_s=600.0)
    assert (("prepare", "slow") not in steps) == is_left_out
    assert [each.variant for each in swept.left_out] == (["slow"] if is_left_out else [])


def test_the_first_blocks_are_not_cut_so_that_a_slow_machine_has_a_table(
    swept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each block takes longer than the time that is left. Nor is the second launch of contenders cut."""
    answers: list[bool] = []
    run = blocks.run_block

    def slowly(*arguments: Any, out_of_time: Callable[[], bool], **options: Any) -> Any:
        rounds.time.sleep(700)
        answers.append(out_of_time())
        return run(*arguments, out_of_time=out_of_time, **options)

    monkeypatch.setattr(blocks, "run_block", slowly)
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(rounds, "time", clock)
    swept([["raw", "slow"], ["fast", "near"]], speeds=SPEEDS, budget_s=600.0)
    assert answers == [False, True, False]
    assert all(record.launches for record in swept.records.values())


@pytest.mark.parametrize(("second_s", "launches"), [(10.0, 2), (0.0, 1)])
def test_contenders_have_a_second_launch_where_first_launches_took_all_of_the_time(
    swept: Any, monkeypatch: pytest.MonkeyPatch, second_s: float, launches: int
) -> None:
    """A block takes 10 s of the fake clock, and each of the two waves has one."""
    monkeypatch.setattr(module, "time", vars(rounds)["time"])
    monkeypatch.setattr(module, "SECOND_S", second_s)
    swept([["raw", "slow"], ["fast", "near"]], speeds=SPEEDS, budget_s=12.0)
    counts = {name: len(record.launches) for name, record in swept.records.items()}
    assert (counts["fast"], counts["near"], counts["slow"]) == (launches, launches, 1)


def test_contenders_alone_are_verified_further_before_the_open_questions(swept: Any) -> None:
    steps = swept([["raw", "slow", "fast", "near"]], speeds=SPEEDS)
    assert steps[3:] == [("verify until 0.01", "fast", "near"), ("time", "fast", "near")]


def test_a_contender_that_loses_too_much_makes_way_for_the_next(swept: Any) -> None:
    steps = swept([["raw", "slow", "fast", "near"]], speeds={**SPEEDS, "near": 600}, losses={"fast": 60})
    assert steps[3:5] == [("verify until 0.01", "fast"), ("verify until 0.01", "near")]


def test_a_contender_whose_bound_is_too_wide_makes_way_for_the_next(swept: Any) -> None:
    """Of the whole split 6 in 1000 are lost: less than the limit, of which the split is too small to be sure."""
    steps = swept([["raw", "slow", "fast", "near"]], speeds={**SPEEDS, "near": 600}, losses={"fast": 6})
    assert steps[3:5] == [("verify until 0.01", "fast"), ("verify until 0.01", "near")]


def test_lossy_contenders_of_one_request_share_the_probability_of_error() -> None:
    """Those that run the same graph count once, and those that claim to lose nothing take no share."""

    def contender(variant: str, threads: int = 1, precision: str = "int8") -> Verified:
        cell = Cell.from_path(f"toy/torch/torch_onnx/{variant}/onnxruntime/cpu/b1t{threads}")
        artifact = Artifact(format="onnx", sha256=variant, size_bytes=1, path=Path(variant))
        value = Prepared(cell=cell, artifact=artifact, key=variant)
        return Verified.of(value, quality=made.quality(precision=precision), inputs=Path("inputs"))

    lossless = [contender(name, precision="float32") for name in ("raw", "onnxsim")]
    lossy = [contender("int8_dynamic"), contender("fp16", precision="float16"), contender("int8_dynamic", threads=2)]
    assert contenders.most_lossy([]) == contenders.most_lossy(lossless) == 1
    assert contenders.most_lossy([*lossless, *lossy]) == 2


@pytest.mark.parametrize(
    ("latencies", "kept"),
    [
        pytest.param({}, {"onnxsim"}, id="three lossy cells share the error, and 320 samples are too few for that"),
        pytest.param(
            {"raw": 900, "onnxsim": 1000, "int8_a": 400, "int8_b": 3000, "int8_c": 3000},
            {"onnxsim", "int8_a", "int8_b", "int8_c"},
            id="two of them are slow and cannot be shipped, so the fast one has all of the error",
        ),
        pytest.param(
            {"raw": 900, "onnxsim": 1000, "int8_a": 400, "int8_b": 500, "int8_c": 600},
            {"onnxsim"},
            id="a pick refuses all three, so a race of them decides nothing",
        ),
    ],
)
def test_candidates_are_those_that_a_pick_takes(latencies: dict[str, int], kept: set[str]) -> None:
    """Of 320 samples without a loss 0.93 % may be lost, and of one of three such cells 1.27 %."""
    values, ledgers = {}, []
    for number, variant in enumerate(("onnxsim", "int8_a", "int8_b", "int8_c")):
        cell = Cell.from_path(f"toy/torch/torch_onnx/{variant}/onnxruntime/cpu/b1t1")
        artifact = Artifact(format="onnx", sha256=variant, size_bytes=1, path=Path(variant))
        lost = Lost(num_samples=320, score=1.0, most=1.0, points=((number, 1e-6),))
        quality = made.quality(precision="int8", lost=lost, metric_loss=0.0, fidelity="drifted")
        if variant == "onnxsim":
            quality = made.quality(precision="float32", lost=None, metric_loss=0.0, fidelity="close")
        prepared = Prepared(cell=cell, artifact=artifact, key=variant)
        values[variant] = Verified.of(prepared, quality=quality, inputs=Path("inputs"))
        launches = [made.launch("a", "cell", latencies[variant])] if variant in latencies else []
        ledgers.append(Ledger(subject=dataclasses.replace(made.subject(cell), key=variant), launches=launches))
    roles = [made.launch("a", role, latencies["raw"]) for role in ("reference", "control") if latencies]
    raw = Cell.from_path("toy/torch/native/raw/pytorch/cpu/b1t1")
    group = Group(baseline=Ledger(subject=made.subject(raw), launches=roles), ledgers=ledgers)
    assert contenders.that_keep(group, values, {}, AllowedLoss(), tolerance=0.05) == kept


def test_cells_that_run_the_graph_of_a_contender_are_verified_with_it(swept: Any) -> None:
    waves = [["raw", "fast", "slow", "near"]]
    steps = swept(waves, speeds={**SPEEDS, "near": 600}, graphs={"fast": "graph", "slow": "graph"})
    assert ("verify until 0.01", "fast", "slow") in steps


@pytest.mark.parametrize("end", ["broken", "failed"])
def test_a_contender_that_proves_unsound_makes_way_for_the_next_and_is_not_timed_further(swept: Any, end: str) -> None:
    waves = [["raw", "slow", "fast", "near"]]
    steps = swept(waves, speeds={**SPEEDS, "near": 600}, ends={"fast": end})
    assert steps[3:5] == [("verify until 0.01", "fast"), ("verify until 0.01", "near")]
    assert not [step for step in steps[5:] if "fast" in step]
    record = swept.records["fast"]
    assert (record.failure is not None) == (end == "failed")
    assert len(record.launches) == (0 if end == "broken" else 1), "the times of a broken cell are discarded"


@pytest.mark.parametrize(
    ("num", "num_lost", "is_kept"), [(64, 0, True), (64, 1, True), (64, 3, True), (64, 5, False), (600, 20, False)]
)
def test_a_few_samples_that_lose_something_rule_no_contender_out(num: int, num_lost: int, is_kept: bool) -> None:
    known = Lost(num_samples=num, score=0.9, most=1.0, points=tuple((row, 1.0) for row in range(num_lost)), of=NUM)
    found = replace(made.quality(fidelity="drifted"), metric_loss=known.mean, lost=known, num_samples=num)
    assert contenders.may_keep(found, AllowedLoss()) == is_kept


def test_a_cell_at_the_limit_is_rarely_ruled_out() -> None:
    """Exact, for each number of samples of which each loses all or nothing."""
    for num in (64, 128, 256, 512):
        lost = np.arange(num + 1)
        ruled_out = [
            not contenders.may_keep(
                replace(
                    made.quality(fidelity="drifted"),
                    metric_loss=float(each) / num,
                    lost=Lost(num_samples=num, score=1.0, most=1.0, points=((0, float(each)),) if each else (), of=NUM),
                    num_samples=num,
                ),
                AllowedLoss(),
            )
            for each in lost
        ]
        assert stats.binom.pmf(lost, num, 0.01)[ruled_out].sum() <= metric_loss.RARE


def test_measuring_gets_its_least_share_once(swept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All time is over: the waves have measured for more than a third of the budget, so nothing more is measured."""
    sweep = Sweep(
        Store(Path("unused"), "machine"), Options(goal=Goal(budget_s=30.0), ends_s=-1e9, whole_split=False), Told()
    )
    assert sweep._goal().budget_s == pytest.approx(10.0)
    sweep._time_left.measured_s = 12.0
    assert (sweep._goal().budget_s or 0.0) <= 0


def test_a_smaller_cell_is_a_contender(swept: Any) -> None:
    steps = swept([["raw", "slow", "fast", "near"]], speeds={**SPEEDS, "near": 600}, sizes={"slow": 1})
    assert ("verify until 0.01", "fast", "slow") in steps


def test_the_whole_split_runs_through_every_cell_before_any_is_timed(swept: Any) -> None:
    steps = swept([["raw", "slow"], ["fast", "near"]], speeds=SPEEDS, whole_split=True)
    assert steps[:2] == [("prepare", "fast", "near", "raw", "slow"), ("verify whole", "fast", "near", "raw", "slow")]
    assert {step[0] for step in steps[2:]} == {"time"}


def test_a_second_sweep_verifies_and_times_nothing_that_is_known(swept: Any) -> None:
    waves = [["raw", "slow"], ["fast", "near"]]
    swept(waves, speeds=SPEEDS, max_launches=2)
    steps = swept(waves, speeds=SPEEDS, max_launches=2)
    assert steps == [("prepare", "raw", "slow"), ("prepare", "fast", "near")]


def test_the_whole_split_is_run_where_a_part_is_stored_and_not_the_other_way_round(swept: Any) -> None:
    waves = [["raw", "slow"], ["fast", "near"]]
    swept(waves, speeds=SPEEDS, max_launches=1)
    steps = swept(waves, speeds=SPEEDS, max_launches=1, whole_split=True)
    assert steps[1] == ("verify whole", "fast", "near", "raw", "slow")
    assert not [step for step in swept(waves, speeds=SPEEDS, max_launches=1) if step[0].startswith("verify")]


def test_the_first_launches_of_a_wave_have_its_share_of_the_time(swept: Any) -> None:
    """A block takes 10 s of the fake clock: half of the cells have 9 s, so no second block of theirs begins then."""
    waves = [["raw", *(f"v{letter}" for letter in LETTERS)], [f"w{letter}" for letter in LETTERS + "z"]]
    steps = swept(waves, speeds=SPEEDS, budget_s=18.0)
    assert [step[0] for step in steps[:5]] == ["prepare", "verify first", "time", "prepare", "verify first"]
    assert 0 < len(steps[2]) - 1 < len(LETTERS)


@pytest.mark.parametrize(
    ("precisions", "bound"),
    [({"reference": "float32"}, 0.0), ({"reference": "float64"}, 0.004), ({"another": "float32"}, 0.004), ({}, 0.004)],
)
def test_a_cell_whose_outputs_are_the_references_loses_nothing(precisions: dict[str, str | None], bound: float) -> None:
    cell = Cell.from_path("toy/torch/torch_onnx/raw/onnxruntime/cpu/b2t1")
    artifact = Artifact(format="onnx", sha256="raw", size_bytes=1, path=Path("raw"))
    exact = made.quality(fidelity="exact", precision="float32", reference="reference", metric_loss=0.004)
    value = Verified.of(Prepared(cell=cell, artifact=artifact, key="raw"), quality=exact, inputs=Path("inputs"))
    assert contenders.bound(value, precisions) == bound
