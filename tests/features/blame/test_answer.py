"""What is said of a blame."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from bench.features.blame import answer
from bench.features.blame.answer import Blame, DriftBlame
from bench.features.blame.cuts import Graph, Node, Part, align
from bench.features.blame.drifting import Drifted
from bench.features.blame.outcome import Line, Outcome
from bench.measure.stats import Estimate


def estimate(value: float, half: float) -> Estimate:
    return Estimate(value=value, low=value - half, high=value + half)


def blamed(sign: float = 1.0) -> Blame:
    """The middle one of three nodes explains most; the third is like it, and the first only by its operator."""
    names = ("first", "middle", "last")
    nodes = tuple(
        Node(name=name, operator="Resize", reads=(f"t{at}",), makes=(f"t{at + 1}",)) for at, name in enumerate(names)
    )
    graph = Graph(nodes=nodes, inputs=("t0",), outputs=("t3",))
    aligned = align(graph, graph, {f"t{at}": f"t{at}" for at in range(4)})
    part, ratio = Part(start=1, end=2), estimate(1 + sign * 0.3, 0.02)
    difference, share = estimate(sign * 0.04, 0.005), estimate(0.5, 0.1)
    line = Line(part=part, core=part, difference=difference, share=share, ratio=ratio, time_share=0.1, core_ratio=ratio)
    remainder = estimate(0.0, 0.01)
    outcome = Outcome(
        ratio=estimate(1 + sign * 0.081, 0.012),
        is_different=True,
        blamed=(line,),
        remainder=remainder,
        remainder_share=remainder,
    )
    times = [(10.0, 10.0), (100.0, 130.0), (110.0, 143.0)]
    culprits = answer.culprits(aligned, outcome, (None, None), times)
    return Blame(before="A <1>", after="B", cell="c", outcome=outcome, culprits=culprits, reproducer="blame/middle")


@pytest.mark.parametrize(("sign", "kind"), [(1.0, "slower"), (-1.0, "faster")])
def test_headline_has_the_difference_what_explains_it_and_where_it_is_shown(sign: float, kind: str) -> None:
    text = answer.headline(blamed(sign))

    alike = ", and about 100 % with 1 more part like it, if it is as much slower"
    assert text == f"{kind} by 8.1 [6.9, 9.3] %; 50 % of that is middle (Resize){alike}: reproducer in blame/middle"


def test_parts_that_are_alike_are_counted_and_no_others() -> None:
    assert blamed().culprits[0].alike == 1
    text = " ".join(answer.render(blamed(), format="table").split())
    assert text.count("like it") == 1, "the headline tells it"


def test_of_parts_that_are_alike_the_others_are_told_once_for_each_kind() -> None:
    blame = blamed()
    most = blame.culprits[0]
    others = [
        dataclasses.replace(most, name=name, operators=({kind: 1}, {kind: 1}), alike=3)
        for name, kind in (("a (Conv)", "Conv"), ("b (Conv)", "Conv"))
    ]

    text = " ".join(answer.render(dataclasses.replace(blame, culprits=(most, *others)), format="table").split())

    assert "50 % is a (Conv), and about 200 % with 3 more parts like it, if they are as much slower" in text
    assert "% is b (Conv)" not in text


def test_without_a_difference_nothing_is_blamed() -> None:
    outcome = Outcome(ratio=estimate(1.001, 0.004), is_different=False)

    text = answer.headline(Blame(before="A", after="B", cell="c", outcome=outcome))

    assert text == "no difference is clear: B takes 1.001 [0.997, 1.005] times as long as A; nothing is blamed"


def test_json_has_all_of_it() -> None:
    content = json.loads(answer.render(blamed(), format="json"))

    assert content["culprits"][0]["nodes"] == [["middle"], ["middle"]]
    assert content["outcome"]["blamed"][0]["difference"]["value"] == 0.04


def test_json_of_intervals_and_errors_without_an_end_can_be_read() -> None:
    blame = blamed()
    no_end = Estimate(value=0.5, low=-math.inf, high=math.inf)
    outcome = dataclasses.replace(blame.outcome, remainder_share=no_end)
    drift = DriftBlame(before="A", after="B", cell="c", drifted=Drifted(tolerance=0.01, error=math.inf))

    content = json.loads(answer.render(dataclasses.replace(blame, outcome=outcome), format="json"))

    assert content["outcome"]["remainder_share"] == {"value": 0.5, "low": None, "high": None}
    assert content["before"] == "A <1>"
    assert json.loads(answer.render(drift, format="json"))["drifted"]["error"] is None


def test_markdown_has_no_markup_of_names() -> None:
    text = answer.render(blamed(), format="md")

    assert "A: A &lt;1&gt;" in text
    assert "<1>" not in text


def test_parts_that_could_not_be_run_are_told() -> None:
    outcome = dataclasses.replace(blamed().outcome, failures={"part_0_1": "no answer\n within 60 s", "part_2_3": "-"})

    text = answer.render(dataclasses.replace(blamed(), outcome=outcome), format="table")

    said = "2 parts could not be run alone, and may be in what is left over: no answer within 60 s"
    assert said in " ".join(text.split())


def test_a_terminal_has_the_headline_in_lines_of_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")

    head = answer.render(blamed(), format="table").split("\n\n")[1].splitlines()

    assert len(head) > 1
    assert max(map(len, head)) <= 60
    assert " ".join(head) == answer.headline(blamed())
