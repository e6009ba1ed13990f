"""Cells that run the same program are one; twins give equal outputs, and a claim leaves none of them out."""

from __future__ import annotations

import dataclasses

import pytest

from bench.decisions import twins
from bench.decisions.answer import Answer
from bench.records.store import Record
from bench.report import outcome
from bench.report import pick as pick_report
from support import records as made
from support.answers import BASE, answer, baseline, cell, ran_with


def paths(*variants: str) -> tuple[str, ...]:
    return tuple(BASE.replace("raw", variant) for variant in variants)


def of_graph(found: Record, canonical: str) -> Record:
    return made.with_artifact(found, canonical=canonical)


def verdict(found: Answer) -> str:
    return pick_report.verdict(found, "bench pick toy", "")


def test_the_simplest_of_twins_that_are_as_fast_is_named() -> None:
    """The twin is 3.5 % faster; the shipped cell's regret is over it."""
    cells = [cell("dedup+onnxsim", 0.5, noise=0.0001), cell("dedup", 0.5175, noise=0.0001), cell("far", 0.9, loss=0.3)]
    found = answer(baseline(), *map(ran_with, cells))
    choice = found.choice
    assert choice.shipped is not None
    assert (choice.outcome, choice.shipped.variant) == ("winner", "dedup")
    assert choice.twins == paths("dedup+onnxsim")
    assert choice.others == ()
    assert 0.035 < choice.regret < 0.05
    assert [row.variant for row in choice.front] == ["dedup"], "twins count as equally fast"
    said = f"  1 twin, with the same outputs on the same runtime, may be as fast:\n    {paths('dedup+onnxsim')[0]}\n"
    assert said in verdict(found)
    assert outcome.may_be_as_fast(choice) == "1 other may be as fast"
    assert outcome.fields(found)["twins"] == [*paths("dedup+onnxsim")]


def test_a_simple_cell_is_not_named_where_a_twin_may_be_much_faster() -> None:
    """It looks 10 % faster in launches that differ by 40 %, so that it was not shown to differ."""
    cells = [cell("dedup", 0.5, noise=0.001), cell("dedup+onnxsim", 0.45, noise=0.2)]
    found = answer(baseline(), *map(ran_with, cells)).choice
    assert found.shipped is not None
    assert found.race is not None
    assert found.race.regrets[paths("dedup")[0]] > 0.1
    assert (found.shipped.variant, found.twins, found.others) == ("dedup+onnxsim", paths("dedup"), ())
    cells = [cell("dedup", 0.5, noise=0.001), cell("dedup+onnxsim", 0.48, noise=0.3)]
    found = answer(baseline(), *map(ran_with, cells)).choice
    assert (found.outcome, found.shipped) == ("none", None)
    assert found.regret > 0.05


def test_a_twin_that_was_launched_once_leaves_the_claim_open() -> None:
    once = cell("dedup+onnxsim", 0.5)
    once = dataclasses.replace(once, launches=once.launches[:1])
    found = answer(baseline(), ran_with(cell("dedup", 0.502, noise=0.001)), ran_with(once)).choice
    assert (found.outcome, found.regret) == ("none", float("inf"))


@pytest.mark.parametrize("noise", [0.001, 0.1, 0.3])
def test_cells_of_one_graph_are_one_deployment(noise: float) -> None:
    """Their launches differ by up to 60 %, which says nothing of two programs: there is one."""
    names = ("onnxsim", "dedup", "onnxoptimizer", "onnxslim+dedup")
    cells = [of_graph(cell(name, 0.5, noise=noise * (-1) ** at), "same") for at, name in enumerate(names)]
    found = answer(baseline(), *cells).choice
    assert found.shipped is not None
    assert (found.outcome, found.shipped.variant) == ("winner", "dedup")
    assert [row.variant for row in found.candidates] == ["dedup", "raw"]
    assert sorted(found.twins) == sorted(paths("onnxsim", "onnxoptimizer", "onnxslim+dedup"))
    assert found.regret == 0


def test_of_one_graph_the_simplest_with_enough_launches_stands() -> None:
    once = cell("dedup", 0.5)
    once = of_graph(dataclasses.replace(once, launches=once.launches[:1]), "same")
    found = answer(baseline(), once, of_graph(cell("onnxslim+dedup", 0.5, noise=0.001), "same")).choice
    assert [row.variant for row in found.candidates] == ["onnxslim+dedup", "raw"]


def test_where_all_cells_are_one_deployment_no_other_qualifies() -> None:
    base = of_graph(baseline(), "same")
    found = answer(base, of_graph(cell("twin", 1.0, noise=0.1), "same"))
    assert len(found.choice.qualified.rows) == 2
    assert "  no other qualifies\n" in verdict(found)


@pytest.mark.parametrize(
    ("path", "version"),
    [
        (BASE.replace("raw/null/cpu", "a+b/null/gpu"), "1.0"),
        (BASE.replace("raw/null/cpu", "a+b/null/cpu"), "1.1"),
    ],
)
def test_another_provider_or_version_has_no_twins(path: str, version: str) -> None:
    near = cell("dedup+onnxsim", 0.501, noise=0.001)
    other = made.with_artifact(made.record(path, *near.launches, quality=near.quality), size_bytes=31)
    found = answer(baseline(), ran_with(cell("dedup", 0.5, noise=0.001)), ran_with(other, version)).choice
    assert found.shipped is not None
    assert found.shipped.variant == "dedup"
    assert [row.cell for row in found.others] == [path]
    assert found.twins == ()


def test_a_file_loaded_from_bytes_is_a_twin() -> None:
    """It is another runtime of the same packages, and looks faster by chance: the usual runtime is named."""
    near = cell("dedup", 0.499, noise=0.001)
    path = near.cell.path.replace("/null/", "/null_bytes/")
    other = made.with_artifact(made.record(path, *near.launches, quality=near.quality), size_bytes=31)
    found = answer(baseline(), ran_with(cell("dedup", 0.5, noise=0.001)), ran_with(other)).choice
    assert found.shipped is not None
    assert (found.shipped.cell, found.twins, found.others) == (near.cell.path, (path,), ())


def test_a_twin_that_is_shown_to_be_slower_is_not_named() -> None:
    found = answer(
        baseline(), ran_with(cell("dedup", 0.7, noise=0.001)), ran_with(cell("dedup+onnxsim", 0.5, noise=0.001))
    ).choice
    assert found.shipped is not None
    assert (found.shipped.variant, found.twins) == ("dedup+onnxsim", ())
    assert [row.variant for row in found.candidates] == ["dedup+onnxsim", "dedup", "raw"]


def test_a_twin_with_a_smaller_file_is_on_the_front() -> None:
    cells = [cell("dedup", 0.5, noise=0.001, size=100), cell("dedup+onnxsim", 0.501, noise=0.001, size=50)]
    found = answer(baseline(), *map(ran_with, cells)).choice
    assert found.shipped is not None
    assert found.shipped.variant == "dedup"
    assert [row.variant for row in found.front] == ["dedup", "dedup+onnxsim", "raw"]


def test_the_sentence_of_several_sure_cells_counts_twins_once() -> None:
    cells = [
        cell("dedup", 0.5, noise=0.001),
        cell("dedup+onnxsim", 0.5, noise=0.001),
        cell("c", 0.5, noise=0.001, size=500, loss=0.3),
    ]
    found = answer(baseline(), *map(ran_with, cells))
    assert found.choice.num_sure == 2
    assert (
        "of the 2 that are fast enough for sure, twins counted once: the smallest file; of files within 10 % of it the "
        "least memory, and within 10 % of that the simplest\n"
    ) in verdict(found)


def test_a_lossy_step_has_no_twin_without_it_though_the_outputs_are_the_same() -> None:
    """As where a model gives the same outputs for all inputs."""
    steps = ("dedup", "fp16", "dedup+fp16")
    records = {found.cell.path: found for found in (ran_with(cell(name, 0.5)) for name in steps)}
    families = [twins.family(records[path]) for path in paths(*steps)]
    assert None not in families
    assert families[0] != families[1]
    assert families[1] == families[2]
