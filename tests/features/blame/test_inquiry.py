"""The way from an answer to its reproducer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.api.cell import Cell
from bench.features.blame import inquiry, reproducer
from bench.features.blame.answer import Blame, Culprit
from bench.features.blame.cuts import Aligned, Graph, Node, Part, align
from bench.features.blame.drifting import Drifted
from bench.features.blame.inquiry import Inquiry
from bench.features.blame.outcome import Line, Outcome
from bench.features.blame.parts import Cut
from bench.measure.stats import Estimate

CORE, AROUND = Part(start=1, end=2), Part(start=0, end=3)
ONE = Estimate(value=1.0, low=0.9, high=1.1)
SLOW, SLOWEST = Estimate(value=1.3, low=1.2, high=1.4), Estimate(value=3.0, low=2.9, high=3.1)


def row() -> Aligned:
    """Three nodes that read one another, the same on both sides."""
    nodes = tuple(Node(name=f"n{at}", operator="Op", reads=(f"t{at}",), makes=(f"t{at + 1}",)) for at in range(3))
    graph = Graph(nodes=nodes, inputs=("t0",), outputs=("t3",))
    return align(graph, graph, {f"t{at}": f"t{at}" for at in range(4)})


def blamed(alone: Estimate | None, difference: Estimate | None = ONE) -> Blame:
    """The middle node, measured with its neighbours; `alone` and `difference` are what it showed by itself."""
    shown: Any = {"core_ratio": alone, "core_difference": difference}
    line = Line(part=AROUND, core=CORE, difference=ONE, share=ONE, ratio=SLOW, time_share=0.5, **shown)
    culprit = Culprit(name="n1 (Op)", nodes=(("n1",), ("n1",)), operators=({"Op": 1}, {"Op": 1}), line=line)
    outcome = Outcome(ratio=SLOW, is_different=True, blamed=(line,), remainder=ONE, remainder_share=ONE)
    return Blame(before="A", after="B", cell="c", outcome=outcome, culprits=(culprit,))


def opened(**fields: Any) -> Inquiry:
    return cast(Inquiry, SimpleNamespace(aligned=row(), pair=None, **fields))


@pytest.mark.parametrize(
    ("alone", "difference", "part", "ratio"),
    [
        (SLOWEST, ONE, CORE, SLOWEST),
        (SLOWEST, Estimate(value=0.4, low=0.3, high=0.5), AROUND, SLOW),  # most of it is its neighbours'
        (ONE, ONE, AROUND, SLOW),
        (None, None, AROUND, SLOW),
    ],
)
def test_the_smallest_part_that_shows_most_of_it_alone_is_reproduced(
    alone: Estimate | None, difference: Estimate | None, part: Part, ratio: Estimate
) -> None:
    chosen, finding = inquiry._finding(opened(), blamed(alone, difference))

    assert finding is not None
    assert (chosen, finding.ratio) == (part, ratio)
    assert ("this part with its neighbours explains" in finding.texts[0]) == (part == CORE)


@pytest.mark.parametrize("is_cut", [False, True])
def test_the_answer_is_not_lost_where_no_reproducer_can_be_written(
    is_cut: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproducer, "refusal", lambda pair: None)
    monkeypatch.setattr(reproducer, "_code", lambda side: "")
    cut = Cut(model=tmp_path / "a.onnx", feeds=tmp_path / "a.npz", outputs=())
    cuts = (cut, cut) if is_cut else "an operator has no type"
    cutter = SimpleNamespace(cuts=lambda parts: {part.key: cuts for part in parts})
    after = SimpleNamespace(cell=Cell.from_path("crnn/torch/torch_onnx/raw/onnxruntime/cpu/b1t1"))
    pair = SimpleNamespace(sides=(None, None), after=after)
    (tmp_path / "crnn-n1-Op").mkdir()
    (tmp_path / "crnn-n1-Op" / "thesis.txt").write_text("mine")
    both = cast(Inquiry, SimpleNamespace(aligned=row(), pair=pair, cutter=cutter))

    answer = inquiry.reproduce(both, blamed(SLOWEST), tmp_path)

    assert answer.reproducer is None
    (note,) = answer.notes
    assert note.startswith("no reproducer: ")
    assert ("has other files" if is_cut else "no type") in note


@pytest.mark.parametrize(
    ("is_one_file", "error", "note"),
    [
        (True, 0.2, "are random, of the same shapes and densities, but for 3"),
        (True, 0.01, "do not differ by more than the tolerance"),
        (True, None, "do not differ by more than the tolerance"),
        (False, 0.2, "the sides run two files"),
    ],
)
def test_wrong_outputs_are_shown_with_random_weights_where_they_stay_wrong(
    is_one_file: bool, error: float | None, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other, random = (Cut(model=tmp_path / name, feeds=tmp_path / "a.npz", outputs=()) for name in "abr")
    monkeypatch.setattr(inquiry.publishing, "without_numbers", lambda *_: ((random, random), 3))
    monkeypatch.setattr(inquiry, "Comparing", lambda *_: SimpleNamespace(error=lambda cuts, tensor: error))
    numbers: Any = {"num_nodes": (1, 1), "operators": ({}, {})}
    drift = reproducer.Finding(title="n1 (Op): outputs differ by 0.3", error=0.3, **numbers)
    both = opened(cutter=None, folder=tmp_path, limits=None)
    cuts = (own, own if is_one_file else other)

    written, finding, said = inquiry._public_drift(both, cuts, drift, Drifted(tolerance=0.05, error=0.3, tensor="t2"))

    assert note in said
    is_random = note.startswith("are random")
    assert written == ((random, random) if is_random else cuts)
    assert finding.title == f"n1 (Op): outputs differ by {0.2 if is_random else 0.3}"
    assert finding.error == (0.2 if is_random else 0.3)
