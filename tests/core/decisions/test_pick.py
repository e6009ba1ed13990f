"""The cell to ship: constraints, cells that the data cannot tell apart, and the launches that would decide."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.api.errors import InputError
from bench.api.loss_units import AllowedLoss
from bench.cli import main
from bench.decisions import pick
from bench.decisions.answer import Answer
from bench.decisions.constraints import Constraints
from bench.decisions.deciding_launches import MOST_LAUNCHES
from bench.decisions.pick import Choice
from bench.measure.comparison import CELL
from bench.measure.memory import Memory
from bench.records import assemble, folder, pareto
from bench.records.lines import Failure
from bench.records.measurements import Measurements
from bench.records.metric_loss import Lost
from bench.records.store import Record
from bench.report import outcome
from bench.report import pick as pick_report
from support import records as made

BASE = "toy/null/native/raw/null/cpu/b1t1"
BLOCKS = {"a": 1_000_000, "b": 2_000_000, "c": 1_500_000, "d": 1_200_000}
WOBBLE = {"a": 1.0, "b": -1.0, "c": 0.5, "d": -0.5}


def cell(name: str, factor: float, *, noise: float = 0.0, size: int = 31, lost: float = 0.0, **more: Any) -> Record:
    """A cell so many times as slow as the baseline; its launches differ by up to `noise`."""
    path = BASE.replace("raw", name)
    launches = [
        made.launch(block, CELL, round(ns * factor * (1 + noise * WOBBLE[block])), reference=BASE)
        for block, ns in BLOCKS.items()
    ]
    found: Record = made.record(path, *launches, quality=made.quality(metric_loss=lost), **more)
    return made.with_artifact(found, size_bytes=size)


def choose(*cells: Record, tolerance: float = 0.05, **constraints: Any) -> Choice:
    baseline = made.baseline(BASE, **BLOCKS)
    return choose_in({record.cell.path: record for record in (baseline, *cells)}, tolerance=tolerance, **constraints)


def choose_in(records: Mapping[str, Record], *, tolerance: float = 0.05, **constraints: Any) -> Choice:
    measurements = Measurements(records)
    rows = assemble.rows(records, measurements=measurements)
    return pick.choose(measurements, rows, Constraints(**constraints), tolerance=tolerance)


def front_of(found: Choice, **constraints: Any) -> str:
    """The front as `bench pick` prints it."""
    return pick_report.front(Answer(choice=found, beside=(), constraints=Constraints(**constraints)))


def verdict_of(found: Choice) -> str:
    """The outcome as `bench pick` prints it."""
    answer = Answer(choice=found, beside=(), constraints=Constraints())
    return pick_report.verdict(answer, "bench pick toy", "")


def variant(found: Choice) -> str | None:
    return found.shipped.variant if found.shipped else None


def test_the_fastest_is_picked() -> None:
    found = choose(cell("fast", 0.5, noise=0.001), cell("slow", 0.8, noise=0.001, size=1))
    assert variant(found) == "fast"
    assert [row.variant for row in found.contenders] == ["fast"]
    assert [row.variant for row in found.qualified.rows] == ["fast", "slow", "raw"]
    assert found.regret == 0
    assert found.further is None


def test_of_those_as_fast_the_smallest_file() -> None:
    """A difference of 0.1 % is within the tolerance; one of 12 % is not."""
    found = choose(
        cell("fast", 0.5, noise=0.001, size=100),
        cell("small", 0.5005, noise=0.001, size=50),
        cell("slower", 0.56, noise=0.001, size=1),
    )
    assert variant(found) == "small"
    assert [row.variant for row in found.contenders] == ["fast", "small"]
    assert 0 < found.regret < 0.02


def test_of_files_of_nearly_one_size_the_simplest() -> None:
    """A step that makes the file 2 % smaller is worth nothing."""
    cells = [cell("int8", 0.5, noise=0.001, size=98), cell("int8+dedup", 0.5, noise=0.001, size=95)]
    assert variant(choose(*cells, cell("int8+dedup+fp16", 0.5, noise=0.001, size=60))) == "int8+dedup+fp16"
    assert variant(choose(*cells)) == "int8"


def test_nothing_is_picked_that_may_be_too_slow() -> None:
    """Launches of both differ by 10 %: which is faster, and by how much, cannot be said."""
    found = choose(cell("one", 0.5, noise=0.1), cell("other", 0.51, noise=-0.1))
    assert (found.outcome, found.shipped) == ("none", None)
    assert found.further is not None
    assert set(found.further.cells) == {BASE.replace("raw", "one"), BASE.replace("raw", "other")}
    assert found.further.launches is not None
    assert 4 < found.further.launches <= MOST_LAUNCHES
    assert found.regret > 0.05
    assert (
        variant(choose(cell("one", 0.5, noise=0.1), cell("other", 0.51, noise=-0.1), tolerance=found.regret)) == "one"
    )


def test_cell_too_uncertain_to_be_picked_does_not_hide_a_sure_one() -> None:
    """It may be as fast, but is not faster by more than the tolerance."""
    found = choose(cell("sure", 0.5, noise=0.001, size=100), cell("unsure", 0.505, noise=0.015, size=1), tolerance=0.2)
    assert [row.variant for row in found.contenders] == ["sure", "unsure"]
    assert variant(found) == "unsure"
    found = choose(cell("sure", 0.5, noise=0.001, size=100), cell("unsure", 0.53, noise=0.03, size=1), tolerance=0.05)
    assert variant(found) == "sure"


def wobbling(num_groups: int) -> dict[str, Record]:
    """Two cells as fast as each other, whose launches differ by 8 %, four launches for each group of blocks."""
    blocks = {f"{name}{number}": ns for number in range(num_groups) for name, ns in BLOCKS.items()}
    records = {BASE: made.baseline(BASE, **blocks)}
    for name, noise in (("one", 0.08), ("other", -0.08)):
        launches = [
            made.launch(block, CELL, round(ns * 0.5 * (1 + noise * WOBBLE[block[0]])), reference=BASE)
            for block, ns in blocks.items()
        ]
        path = BASE.replace("raw", name)
        records[path] = made.record(path, *launches, quality=made.quality(metric_loss=0.0))
    return records


def test_launches_that_are_asked_for_decide() -> None:
    """Few launches understate how far launches differ, so the first answer may ask for too few, but never for ever."""
    found, num_groups, asked = choose_in(wobbling(1)), 1, []
    while found.further is not None:
        assert found.further.launches is not None
        assert found.further.launches > 4 * num_groups
        asked.append(found.further.launches)
        num_groups = -(-found.further.launches // 4)
        found = choose_in(wobbling(num_groups))
    assert 1 <= len(asked) <= 3
    assert found.outcome == "winner"
    assert asked[0] >= asked[-1] / 3


def sharp(name: str, factor: float, *lost_db: float, num_samples: int = 64) -> Record:
    """A cell in int8 that loses some dB on the first of its photographs."""
    known = Lost(num_samples=num_samples, score=1.0, most=1.0, points=tuple(enumerate(lost_db)))
    return made.replaced_quality(
        cell(name, factor, lost=known.mean), lost=known, metric_loss_unit="dB", precision="int8", fidelity="drifted"
    )


def test_a_loss_in_db_is_held_against_the_limit_in_db() -> None:
    """Of 64 photographs, each loses 0.04 dB: at most 0.085; or one of them 4.95, as int8 once did: at most 0.36."""
    even, one = sharp("even", 0.5, *[0.04] * 64), sharp("one", 0.4, 4.95)
    found = choose(even, one, max_metric_loss=AllowedLoss())
    assert variant(found) == "even"
    assert found.shipped is not None
    assert found.shipped.metric_loss == pytest.approx(0.04)
    assert 0.04 < (found.shipped.metric_loss_high or 0.0) < 0.1
    assert variant(choose(even, one, max_metric_loss=AllowedLoss(share=0.5))) == "even", "a share is no limit of dB"
    assert variant(choose(even, one, max_metric_loss=AllowedLoss(share=0.0, db=0.5))) == "one"
    strict = choose(even, max_metric_loss=AllowedLoss(db=0.05))
    assert strict.lacking is not None
    assert (
        "the least is 0.084 dB; 64 held-out samples are too few to say that 1 cell would lose at most 0.05 dB of the "
        in (strict.lacking)
    )


def test_cells_within_a_hundredth_of_a_db_have_one_place_on_the_front() -> None:
    """A loss of 0.008 dB more is noise, so the slower cell is off the front; 0.012 dB is none, nor 0.8 % of a score."""
    slow = sharp("slow", 0.5, *[0.02] * 64)
    within, beyond = (choose(slow, sharp("fast", 0.3, *[lost] * 64)) for lost in (0.028, 0.032))
    assert [row.variant for row in within.front] == ["fast"]
    assert [row.variant for row in beyond.front] == ["fast", "slow"]
    share = choose(cell("slow", 0.5, lost=0.02), cell("fast", 0.3, lost=0.028))
    assert [row.variant for row in share.front] == ["fast", "slow"]


def test_what_lacks_is_told_in_db() -> None:
    lossy = dataclasses.replace(made.baseline(BASE, **BLOCKS), quality=sharp("raw", 1.0, *[0.2] * 64).quality)
    lossy = made.replaced_quality(lossy, reference="another/null/native/raw/null/cpu/b1t1")
    found = choose_in({BASE: lossy}, max_metric_loss=AllowedLoss())
    assert found.lacking is not None
    assert "--max-metric-drop 0 of 1; the least is 0.24 dB" in found.lacking
    few = choose(sharp("few", 0.5, 0.3, num_samples=14), max_metric_loss=AllowedLoss())
    assert few.too_few is not None
    assert few.too_few.startswith("14 held-out samples are too few to say that 1 cell would lose at most 0.1 dB of ")


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ({"max_metric_loss": AllowedLoss()}, "exact"),
        ({"max_metric_loss": AllowedLoss(share=0.05)}, "lossy"),
        ({"max_size_bytes": 10}, "small"),
        ({"max_latency_ns": 600_000}, "lossy"),
        ({"max_latency_ns": 700_000, "max_metric_loss": AllowedLoss(share=0.0)}, "exact"),
    ],
)
def test_constraints(constraints: dict[str, float], expected: str) -> None:
    cells = (
        cell("lossy", 0.3, noise=0.001, lost=0.02),
        cell("exact", 0.5, noise=0.001),
        cell("small", 0.9, noise=0.001, size=10),
    )
    assert variant(choose(*cells, **constraints)) == expected


def test_memory_is_that_of_the_whole_process() -> None:
    hungry, modest = cell("hungry", 0.5, noise=0.001), cell("modest", 0.9, noise=0.001)
    phases = hungry.launches[0].memory.phases
    load = dataclasses.replace(phases["load"], peak_rss_bytes=500)
    memory = Memory(method="kernel", phases={**phases, "load": load})
    hungry = dataclasses.replace(hungry, launches=[replace(launch, memory=memory) for launch in hungry.launches])
    assert variant(choose(hungry, modest, max_memory_bytes=499)) == "modest"
    assert variant(choose(hungry, modest, max_memory_bytes=500)) == "hungry"


def unsure(name: str, factor: float, *, num_samples: int, lost: tuple[tuple[int, float], ...] = ()) -> Record:
    """A cell whose held-out samples lose these points, of one each."""
    found = cell(name, factor, noise=0.001)
    samples = Lost(num_samples=num_samples, score=1.0, most=1.0, points=lost)
    share = sum(points for _, points in lost) / num_samples
    return dataclasses.replace(found, quality=made.quality(metric_loss=share, lost=samples))


def test_a_metric_is_kept_when_its_bound_says_so() -> None:
    """Neither loses anything on its samples, but a hundred samples can tell only a loss of 2.95 %."""
    cells = (unsure("few", 0.3, num_samples=100), unsure("many", 0.5, num_samples=300))
    assert variant(choose(*cells, max_metric_loss=AllowedLoss(share=0.03))) == "few"
    found = choose(*cells, max_metric_loss=AllowedLoss())
    assert variant(found) == "many"
    said = "100 held-out samples are too few to say that 1 cell would lose at most 1 % of the metric"
    assert found.too_few == f"{said}; about 300 would do"
    assert front_of(found, max_metric_loss=AllowedLoss()).startswith(said)


def test_a_cell_that_loses_more_than_it_may_needs_no_samples() -> None:
    found = choose(
        unsure("lossy", 0.3, num_samples=300, lost=((1, 10.0),)),
        cell("raw2", 0.9),
        max_metric_loss=AllowedLoss(),
    )
    assert found.too_few is None


def test_where_no_split_is_large_enough_the_message_says_how_large_it_must_be() -> None:
    few = dataclasses.replace(made.baseline(BASE, **BLOCKS), quality=unsure("raw", 1.0, num_samples=14).quality)
    few = made.replaced_quality(few, reference="another/null/native/raw/null/cpu/b1t1")
    records = {BASE: few}
    found = choose_in(records, max_metric_loss=AllowedLoss())
    assert (found.outcome, found.shipped) == ("none", None)
    assert found.lacking is not None
    assert "--max-metric-drop 0 of 1; the least is 19 %" in found.lacking
    assert "14 held-out samples are too few to say that 1 cell would lose at most 1 %" in found.lacking
    assert found.lacking.endswith("about 300 would do")


def test_a_metric_without_a_bound_is_held_against_its_loss_and_the_front_says_so() -> None:
    exempt = cell("exempt", 0.3, noise=0.001, lost=0.005)
    assert exempt.quality is not None
    exempt = dataclasses.replace(exempt, quality=replace(exempt.quality, lost="fidelity alone judges it"))
    found = choose(exempt, max_metric_loss=AllowedLoss())
    assert variant(found) == "exempt"
    text = front_of(found, max_metric_loss=AllowedLoss())
    assert "without a bound: fidelity alone judges it" in text
    assert "without a bound" not in front_of(found)


def test_what_nothing_meets_is_said_of_each() -> None:
    found = choose(cell("one", 0.5), cell("two", 0.6, size=20), max_size_bytes=10, max_latency_ns=900_000)
    text = found.lacking or ""
    assert "--max-size 0 of 3; the least is 0.02 kB" in text
    assert "--max-latency 2 of 3" in text


def test_the_nearest_figure_is_also_that_of_the_cells_that_keep_to_the_other_limits() -> None:
    """The smallest file loses half of the metric, so its size is of no use to who needs the metric."""
    small, whole = cell("small", 0.5, size=10, lost=0.5), cell("whole", 0.6, size=300_000)
    text = choose(small, whole, max_size_bytes=5, max_metric_loss=AllowedLoss()).lacking or ""
    assert "--max-size 0 of 3; the least is 0.01 kB, and 0.3 MB of those that keep to the others" in text
    text = choose(small, whole, max_size_bytes=5).lacking or ""
    assert "--max-size 0 of 3; the least is 0.01 kB" in text
    assert "keep to the others" not in text


def test_cells_that_were_not_timed_are_counted_beside_a_winner() -> None:
    waiting = made.record(BASE.replace("raw", "waiting"), quality=made.quality())
    failed = made.record(BASE.replace("raw", "failed"), quality=None, failure=Failure(stage="open", reason="no"))
    found = choose(cell("fast", 0.5, noise=0.001), waiting, failed)
    assert found.outcome == "winner"
    text = verdict_of(found)
    assert "  1 more cell was prepared and not timed, and may be faster\n" in text
    assert "  to time those:\n    bench run 'toy/*/b1t1'\n" in text
    assert "not timed" not in verdict_of(choose(cell("fast", 0.5)))
    lacking = choose(cell("fast", 0.5, noise=0.001), waiting, max_size_bytes=1)
    assert lacking.outcome == "none"
    assert "  to time those:\n    bench run 'toy/*/b1t1'\n" in verdict_of(lacking)


def test_a_winner_that_is_the_model_as_it_is_says_so() -> None:
    found = choose(cell("slow", 2.0, noise=0.001))
    assert variant(found) == "raw"
    assert "\n  this is the model as it is\n" in verdict_of(found)
    found = choose(cell("fast", 0.5, noise=0.001))
    assert "as it is" not in verdict_of(found)


def test_a_contender_that_was_shown_to_be_slower_than_the_shipped_cell_is_not_called_as_fast() -> None:
    """At a tolerance of 20 % a cell that is slower by a tenth may be shipped, but it is not as fast."""
    found = choose(cell("fast", 0.5, noise=0.001), cell("slower", 0.55, noise=0.001), tolerance=0.2)
    assert {row.variant for row in found.contenders} == {"fast", "slower"}
    assert (variant(found), found.others) == ("fast", ())


def test_a_loss_is_counted_at_the_level_at_which_it_was_held_against_the_limit() -> None:
    """Each of two cells loses at most 0.93 % by itself; that at most one of both is wrong allows 1.14 %."""
    cells = [
        made.with_artifact(unsure(name, 0.5, num_samples=number), size_bytes=8)
        for name, number in (("one", 320), ("two", 321))
    ]
    found = choose(*cells, max_metric_loss=AllowedLoss(), max_size_bytes=10)
    assert found.lacking is not None
    assert (
        "alone, --max-metric-drop 0 of 3; the least is 1.1 %, with 95 % confidence for all such cells together, "
        "--max-size 2 of 3"
    ) in found.lacking
    found = choose(*cells, max_metric_loss=AllowedLoss(share=0.012), max_size_bytes=10)
    assert found.shipped is not None
    (only, _) = cells
    found = choose(only, max_metric_loss=AllowedLoss(), max_size_bytes=10)
    assert variant(found) == "one"


def test_what_a_faster_cell_may_lose_is_told_at_the_level_at_which_it_was_held_against_the_limit() -> None:
    cells = [unsure(name, factor, num_samples=number) for name, factor, number in (("a", 0.3, 320), ("b", 0.5, 321))]
    base = made.replaced_quality(made.baseline(BASE, **BLOCKS), metric_loss=0.0)
    found = choose_in({record.cell.path: record for record in (base, *cells)}, max_metric_loss=AllowedLoss())
    assert found.faster is not None
    assert found.shipped is not None
    assert (found.faster.variant, found.shipped.variant) == ("a", "raw")
    assert found.faster.metric_loss_high == pytest.approx(1 - 0.05 ** (1 / 320))
    assert found.faster_loss_high == pytest.approx(1 - 0.025 ** (1 / 320))
    assert (outcome.faster(found) or "").endswith("it loses 0 % of accuracy, at most 1.1 %")


def test_wrong_and_failed_cells_are_not_picked() -> None:
    wrong = dataclasses.replace(cell("wrong", 0.1), quality=made.quality(metric_loss=0.0, fidelity="broken"))
    failed = cell("failed", 0.2, failure=Failure(stage="measure", reason="crashed"))
    assert variant(choose(wrong, failed, cell("right", 0.9, noise=0.001))) == "right"


def test_only_one_request_at_a_time() -> None:
    records = {path: made.baseline(path, **BLOCKS) for path in (BASE, BASE.replace("b1", "b2"))}
    with pytest.raises(InputError, match="one request, not 2"):
        choose_in(records)


def test_front_holds_what_no_other_beats() -> None:
    found = choose(
        cell("fast", 0.5, noise=0.001, size=100),
        cell("small", 0.9, noise=0.001, size=10),
        cell("neither", 0.95, noise=0.001, size=100),
        cell("better", 1.2, noise=0.001, size=100, lost=-0.01),
    )
    assert [row.variant for row in found.front] == ["fast", "small", "better"]


def test_cells_that_differ_by_noise_alone_have_one_place_on_the_front() -> None:
    """Ten files that differ by 0.1 % in size and speed; one that is a tenth of the size stays."""
    alike = [cell(f"v{number}", 0.5 + 0.0005 * number, noise=0.001, size=10_000 - 10 * number) for number in range(10)]
    found = choose(*alike, cell("small", 0.8, noise=0.001, size=1000))
    assert found.shipped is not None
    assert [row.variant for row in found.front] == [found.shipped.variant, "small", "raw"]


def test_a_ratio_is_printed_with_one_interval() -> None:
    found = Answer(choice=choose(cell("fast", 0.5, noise=0.001)), beside=(), constraints=Constraints())
    text = pick_report.front(found) + pick_report.verdict(found, "bench pick toy", "")
    assert len(re.findall(r"0\.\d+ \[0\.\d+, 0\.\d+\]", text)) == 1


def test_cells_that_may_be_as_fast_have_one_count() -> None:
    cells = [cell(f"v{number}", 0.5 + 0.005 * number, noise=0.001 + 0.01 * number) for number in range(4)]
    found = Answer(choice=choose(*cells), beside=(), constraints=Constraints())
    text = pick_report.verdict(found, "bench pick toy", "")
    number = len(found.choice.others)
    assert number
    assert re.findall(r"(\d+) others?", text) == [str(number)]
    assert sum(row.cell in text for row in found.choice.others) == number


def test_launches_are_counted_from_the_cell_that_has_most() -> None:
    """`bench run --launches` counts a cell's own; what decides is what both run side by side."""
    one, other = cell("one", 0.5, noise=0.08), cell("other", 0.5, noise=-0.08)
    baseline = made.baseline(BASE, **{**BLOCKS, "x": 1_000_000, "y": 1_000_000, "z": 1_000_000})
    alone = [made.launch(block, CELL, 500_000, reference=BASE) for block in "xyz"]
    one = made.record(one.cell.path, *one.launches, *alone, quality=made.quality(metric_loss=0.0))
    records = {record.cell.path: record for record in (baseline, one, other)}
    choice = choose_in(records)
    together = choose(cell("one", 0.5, noise=0.08), cell("other", 0.5, noise=-0.08))
    assert together.further is not None
    assert choice.further is not None
    assert together.further.launches is not None
    assert choice.further.launches is not None
    assert 7 + 1 <= choice.further.launches <= 7 + together.further.launches - 4 + 1


def test_what_launches_cannot_decide_is_said() -> None:
    found = choose(cell("one", 0.5, noise=0.5), cell("other", 0.5, noise=-0.5), tolerance=0.01)
    assert found.further is not None
    assert found.further.launches is None


def test_command_says_what_would_decide(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cells = (made.baseline(BASE, **BLOCKS), cell("one", 0.5, noise=0.1), cell("other", 0.51, noise=-0.1))
    records = {record.cell.path: record for record in cells}
    measurements = Measurements(records)
    found = folder.Results(
        folder=Path("some where"),
        records=records,
        rows=assemble.rows(records),
        measurements=measurements,
        peaks={},
        margin=0.02,
    )
    monkeypatch.setattr(folder, "read", lambda *_, **__: found)
    monkeypatch.setattr(sys, "argv", ["bench", "pick", "toy", "--results", "some where"])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    assert stopped.value.code == 1
    shown = capsys.readouterr().out
    assert "none: 2 cells may be the fastest, and none is sure to be at most 5 % slower than the others" in shown
    paths = [BASE.replace("raw", name) for name in ("one", "other")]
    assert f"bench run {' '.join(paths)} --launches " in shown
    assert "--results 'some where'" in shown


def test_undominated() -> None:
    assert pareto.undominated([(1, 2), (2, 1), (2, 2), (1, 2), (3, 0)]) == [0, 1, 3, 4]
    assert pareto.undominated([]) == []


def test_table_for_80_columns_breaks_no_part_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = choose(cell("fast", 0.5, noise=0.001))
    (fast,) = found.front
    wide = dataclasses.replace(fast, runtime="onnxruntime_iobinding", metric_name="accuracy", size_bytes=10_990_000)
    lines = front_of(dataclasses.replace(found, front=(wide,))).splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("─")) + 1
    assert max(map(len, lines[first:])) <= 80
    assert "".join(line.split("  ")[0] for line in lines[first:]) == "null/native/fast/onnxruntime_iobinding/cpu"
    assert any("onnxruntime_iobinding/" in line for line in lines[first:])
